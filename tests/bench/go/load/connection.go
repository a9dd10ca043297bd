package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

const (
	deadline   = "5S" // as grpc-timeout says it
	ourWindow  = 1 << 30
	firstQuota = 100 // streams at once, until the server has said how many
	maxRequest = 1 << 10
)

// read is one call: what it asks, by the number of a user, when it was due, how it ended.
type read struct {
	call *call
	user int
	due  time.Time
	took time.Duration
	err  error
	done func()
}

// connection is gRPC by hand, on HTTP/2 frames: grpc-go takes some 170 µs for a call, on processors that the server
// which is measured wants for itself.
type connection struct {
	socket net.Conn
	out    *bufio.Writer
	framer *http2.Framer

	lock    sync.Mutex // all below
	packed  bytes.Buffer
	headers *hpack.Encoder
	next    uint32 // stream
	window  int64  // bytes of messages that the server takes
	quota   int
	running map[uint32]*read
	waiting []*read
	broken  error

	watched  map[uint32]bool // streams of watchers: whether a message has come
	watchers *watchers
}

func dial(address string) (*connection, error) {
	socket, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	c := &connection{socket: socket, out: bufio.NewWriterSize(socket, 64<<10), next: 1, window: 65_535, quota: firstQuota}
	c.running = map[uint32]*read{}
	c.headers = hpack.NewEncoder(&c.packed)
	c.framer = http2.NewFramer(c.out, bufio.NewReaderSize(socket, 64<<10))
	c.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	c.lock.Lock()
	defer c.lock.Unlock()
	_, _ = io.WriteString(c.out, http2.ClientPreface)
	_ = c.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: ourWindow})
	_ = c.framer.WriteWindowUpdate(0, ourWindow)
	if err := c.out.Flush(); err != nil {
		return nil, err
	}
	go c.receive()
	return c, nil
}

// send begins the reads, or has them wait for the server's limits.
func (c *connection) send(reads []*read) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.waiting = append(c.waiting, reads...)
	c.begin()
}

func (c *connection) begin() {
	for len(c.waiting) > 0 && len(c.running) < c.quota && c.broken == nil {
		if !c.beginOne(c.waiting[0]) {
			break
		}
		c.waiting = c.waiting[1:]
	}
	if err := c.out.Flush(); err != nil {
		c.end(err)
	}
	if c.broken != nil {
		for _, r := range c.waiting {
			c.finish(r, c.broken)
		}
		c.waiting = nil
	}
}

func (c *connection) beginOne(r *read) bool {
	if c.window < maxRequest {
		return false
	}
	c.running[c.next] = r
	c.request(r.call.path, r.call.message(r.user), deadline)
	return true
}

func (c *connection) receive() {
	unread := uint32(0)
	for {
		frame, err := c.framer.ReadFrame()
		c.lock.Lock()
		if err != nil {
			c.end(err)
			c.begin()
			c.lock.Unlock()
			return
		}
		switch f := frame.(type) {
		case *http2.SettingsFrame:
			c.settings(f)
		case *http2.PingFrame:
			if !f.IsAck() {
				_ = c.framer.WritePing(true, f.Data)
				_ = c.out.Flush()
			}
		case *http2.WindowUpdateFrame:
			if f.StreamID == 0 {
				c.window += int64(f.Increment)
				c.begin()
			}
		case *http2.DataFrame:
			c.told(f.StreamID)
			if unread += uint32(len(f.Data())); unread > ourWindow/2 {
				_ = c.framer.WriteWindowUpdate(0, unread)
				unread = 0
			}
		case *http2.MetaHeadersFrame:
			if f.StreamEnded() {
				c.answered(f.StreamID, status(f))
			}
		case *http2.RSTStreamFrame:
			c.answered(f.StreamID, fmt.Errorf("stream reset: %v", f.ErrCode))
		case *http2.GoAwayFrame:
			c.end(fmt.Errorf("the server went away: %v", f.ErrCode))
		}
		c.lock.Unlock()
	}
}

func (c *connection) settings(f *http2.SettingsFrame) {
	if f.IsAck() {
		return
	}
	if quota, ok := f.Value(http2.SettingMaxConcurrentStreams); ok {
		c.quota = int(quota)
	}
	_ = c.framer.WriteSettingsAck()
	c.begin()
}

func (c *connection) answered(id uint32, err error) {
	c.over(id, err)
	if r, ok := c.running[id]; ok {
		delete(c.running, id)
		c.finish(r, err)
		if len(c.waiting) > 0 {
			c.begin()
		}
	}
}

func (c *connection) finish(r *read, err error) {
	r.took, r.err = time.Since(r.due), err
	r.done()
}

// end of the connection: nothing that runs will be answered.
func (c *connection) end(err error) {
	if c.broken == nil {
		c.broken = err
	}
	for id := range c.watched {
		c.over(id, err)
	}
	for id, r := range c.running {
		delete(c.running, id)
		c.finish(r, err)
	}
}

func status(f *http2.MetaHeadersFrame) error {
	code, message := "", ""
	for _, field := range f.Fields {
		switch field.Name {
		case "grpc-status":
			code = field.Value
		case "grpc-message":
			message = field.Value
		}
	}
	if code != "0" {
		return fmt.Errorf("status %q: %s", code, message)
	}
	return nil
}
