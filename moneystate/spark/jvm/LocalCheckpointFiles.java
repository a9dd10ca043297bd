package moneystate;

import java.io.BufferedOutputStream;
import java.io.File;
import java.io.FileNotFoundException;
import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.CopyOption;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.DirectoryStream;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.NotDirectoryException;
import java.nio.file.OpenOption;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.BasicFileAttributes;
import java.nio.file.attribute.FileAttribute;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathFilter;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Spark's checkpoint files in a folder of this machine, without a process started for each.
 *
 * <p>Hadoop's local file system has no native library here, so it starts {@code chmod}, {@code readlink} or {@code ls}
 * where a system call would do: 35 to 60 ms for each file that Spark writes at each batch. This one calls the system.
 *
 * <p>What a reader finds is what Spark's own manager leaves, but for two things. There are no {@code .name.crc} files
 * beside the files: Hadoop checks a file against one that is there, so one that an earlier run left is removed before
 * its file changes. And a file is on disk before it gets its name (Spark's own leaves that to the system, so that a
 * power cut can leave empty files), unless the Hadoop setting {@code moneystate.checkpoint.sync} is false.
 *
 * <p>Written for Janino, the compiler among Spark's jars, so that no JDK is needed: no lambdas.
 */
public final class LocalCheckpointFiles implements CheckpointFileManager {
    private static final Logger LOG = LoggerFactory.getLogger(LocalCheckpointFiles.class);
    private static final long BLOCK_BYTES = 32L << 20; // what Hadoop's local file system reports

    private final Path root;
    private final LocalFileSystem hadoop;
    private final boolean sync;

    /** Called by Spark with the folder to be managed. */
    public LocalCheckpointFiles(Path root, Configuration settings) throws IOException {
        this.root = root;
        this.hadoop = FileSystem.getLocal(settings);
        this.sync = settings.getBoolean("moneystate.checkpoint.sync", true);
    }

    /** The file appears under its name when the stream is closed, whole; a canceled one leaves nothing. */
    public CheckpointFileManager.CancellableFSDataOutputStream createAtomic(Path path, boolean overwriteIfPossible)
            throws IOException {
        java.nio.file.Path target = local(path);
        File temporary = target.resolveSibling("." + target.getFileName() + "." + UUID.randomUUID() + ".tmp").toFile();
        FileOutputStream file = new FileOutputStream(temporary);
        return new AtomicFile(file, temporary.toPath(), target, overwriteIfPossible, sync);
    }

    /** Checked by Hadoop against the {@code .crc} file of an earlier run, if there is one. */
    public FSDataInputStream open(Path path) throws IOException {
        return hadoop.open(path);
    }

    public FileStatus[] list(Path path) throws IOException {
        return list(path, null);
    }

    public FileStatus[] list(Path path, PathFilter filter) throws IOException {
        List found = new ArrayList();
        try {
            DirectoryStream entries = Files.newDirectoryStream(local(path));
            try {
                for (Object entry : entries) {
                    java.nio.file.Path file = (java.nio.file.Path) entry;
                    Path named = new Path(hadoop.makeQualified(path), file.getFileName().toString());
                    if (!isCrc(file) && (filter == null || filter.accept(named))) {
                        add(found, named, file);
                    }
                }
            } finally {
                entries.close();
            }
        } catch (NoSuchFileException e) {
            throw missing(path);
        } catch (NotDirectoryException e) {
            return hadoop.listStatus(path);
        } catch (DirectoryIteratorException e) {
            throw e.getCause();
        }
        return (FileStatus[]) found.toArray(new FileStatus[0]);
    }

    public void mkdirs(Path path) throws IOException {
        java.nio.file.Path folder = local(path);
        if (!Files.isDirectory(folder, new LinkOption[0])) { // Java 17 takes a link to a folder for a file
            Files.createDirectories(folder, new FileAttribute[0]);
        }
    }

    public boolean exists(Path path) {
        return Files.exists(local(path), new LinkOption[0]);
    }

    /** A file, or a folder with all that is in it. What is not there is no error. */
    public void delete(Path path) throws IOException {
        java.nio.file.Path file = local(path);
        deleteTree(file);
        Files.deleteIfExists(crcOf(file));
    }

    public boolean isLocal() {
        return true;
    }

    public Path createCheckpointDirectory() throws IOException {
        mkdirs(root);
        return hadoop.makeQualified(root);
    }

    public void close() {}

    private java.nio.file.Path local(Path path) {
        return hadoop.pathToFile(path).toPath();
    }

    private static java.nio.file.Path crcOf(java.nio.file.Path file) {
        return file.resolveSibling("." + file.getFileName() + ".crc");
    }

    /** Hadoop's listing leaves them out, too. */
    private static boolean isCrc(java.nio.file.Path file) {
        String name = file.getFileName().toString();
        return name.startsWith(".") && name.endsWith(".crc");
    }

    /** A file that has gone since the folder was read is left out: maintenance deletes while others list. */
    private static void add(List found, Path named, java.nio.file.Path file) throws IOException {
        try {
            BasicFileAttributes a = Files.readAttributes(file, BasicFileAttributes.class, new LinkOption[0]);
            long modified = a.lastModifiedTime().toMillis();
            found.add(new FileStatus(a.isDirectory() ? 0 : a.size(), a.isDirectory(), 1, BLOCK_BYTES, modified, named));
        } catch (NoSuchFileException e) {
            return;
        }
    }

    /** Links are removed, not followed. */
    private static void deleteTree(java.nio.file.Path file) throws IOException {
        if (Files.isDirectory(file, new LinkOption[] {LinkOption.NOFOLLOW_LINKS})) {
            DirectoryStream entries = Files.newDirectoryStream(file);
            try {
                for (Object entry : entries) {
                    deleteTree((java.nio.file.Path) entry);
                }
            } finally {
                entries.close();
            }
        }
        Files.deleteIfExists(file);
    }

    private static FileNotFoundException missing(Path path) {
        return new FileNotFoundException("File " + path + " does not exist");
    }

    /** A temporary file beside the target, which takes the target's name on close. */
    private static final class AtomicFile extends CheckpointFileManager.CancellableFSDataOutputStream {
        private final FileOutputStream file;
        private final java.nio.file.Path temporary;
        private final java.nio.file.Path target;
        private final boolean overwrite;
        private final boolean sync;
        private boolean ended = false;

        AtomicFile(FileOutputStream file, java.nio.file.Path temporary, java.nio.file.Path target, boolean overwrite,
                boolean sync) {
            super(new BufferedOutputStream(file));
            this.file = file;
            this.temporary = temporary;
            this.target = target;
            this.overwrite = overwrite;
            this.sync = sync;
        }

        public synchronized void close() throws IOException {
            if (ended) {
                return;
            }
            ended = true;
            try {
                flush();
                if (sync) {
                    file.getFD().sync();
                }
                underlyingStream().close();
                publish();
            } finally {
                file.close();
                Files.deleteIfExists(temporary);
            }
        }

        public synchronized void cancel() {
            if (ended) {
                return;
            }
            ended = true;
            try {
                file.close();
                Files.deleteIfExists(temporary);
            } catch (IOException e) {
                LOG.warn("could not remove " + temporary, e);
            }
        }

        /** The stale checksums go first: a file without them is a good file, one beside the wrong ones is not. */
        private void publish() throws IOException {
            if (overwrite) {
                Files.deleteIfExists(crcOf(target));
                Files.move(temporary, target, new CopyOption[] {StandardCopyOption.ATOMIC_MOVE});
            } else {
                if (Files.exists(target, new LinkOption[] {LinkOption.NOFOLLOW_LINKS})) {
                    throw new FileAlreadyExistsException(target + " exists already");
                }
                Files.deleteIfExists(crcOf(target));
                link();
            }
            if (sync) {
                FileChannel folder = FileChannel.open(target.getParent(), new OpenOption[] {StandardOpenOption.READ});
                try {
                    folder.force(true);
                } finally {
                    folder.close();
                }
            }
        }

        /** A link, unlike a rename, fails where the name is taken. */
        private void link() throws IOException {
            try {
                Files.createLink(target, temporary);
            } catch (java.nio.file.FileAlreadyExistsException e) {
                throw new FileAlreadyExistsException(target + " exists already");
            } catch (UnsupportedOperationException e) {
                rename();
            } catch (FileSystemException e) {
                rename();
            }
        }

        /** Where the file system has no links: as Spark's own manager, a look just before. */
        private void rename() throws IOException {
            Files.move(temporary, target, new CopyOption[] {StandardCopyOption.ATOMIC_MOVE});
        }
    }
}
