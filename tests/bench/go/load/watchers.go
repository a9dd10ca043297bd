package main

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/proto"
)

const (
	watchersEach = 500 // of one connection
	openWithin   = 60 * time.Second
)

// watchers are streams of changes that stay open beside the reads.
type watchers struct {
	opened, messages, ended atomic.Int64
	why                     atomic.Value // of the last one that ended
}

// open `number` of them, on connections of their own, and wait for the first message of each. all: they watch all
// users, else one each.
func open(address string, number int, all bool, user func() string) (*watchers, error) {
	w := &watchers{}
	for left := number; left > 0; left -= watchersEach {
		c, err := dial(address)
		if err != nil {
			return nil, err
		}
		if err := c.watch(w, min(left, watchersEach), all, user); err != nil {
			return nil, err
		}
	}
	for until := time.Now().Add(openWithin); w.opened.Load() < int64(number); time.Sleep(tick) {
		if w.ended.Load() > 0 || time.Now().After(until) {
			return nil, fmt.Errorf("%d of %d watchers are open: %v", w.opened.Load(), number, w.why.Load())
		}
	}
	return w, nil
}

func (c *connection) watch(w *watchers, number int, all bool, user func() string) error {
	c.lock.Lock()
	for until := time.Now().Add(openWithin); c.quota < number; { // until the server has said how many streams it takes
		c.lock.Unlock()
		if time.Now().After(until) {
			return fmt.Errorf("the server takes %d streams on a connection, not %d", c.quota, number)
		}
		time.Sleep(tick)
		c.lock.Lock()
	}
	defer c.lock.Unlock()
	c.watched = map[uint32]bool{}
	c.watchers = w
	for range number {
		var key *string
		if !all {
			id := user()
			key = &id
		}
		c.watched[c.next] = false
		path, message := watch(key)
		c.request(path, message, "")
	}
	return c.out.Flush()
}

// request sends the frames of a call with one message.
func (c *connection) request(path string, message proto.Message, timeout string) {
	encoded, _ := proto.Marshal(message)
	framed := make([]byte, 5, 5+len(encoded))
	binary.BigEndian.PutUint32(framed[1:], uint32(len(encoded)))
	framed = append(framed, encoded...)
	c.window -= int64(len(framed))
	c.packed.Reset()
	for _, field := range [][2]string{
		{":method", "POST"}, {":scheme", "http"}, {":path", path}, {":authority", "localhost"},
		{"content-type", "application/grpc"}, {"te", "trailers"}, {"grpc-timeout", timeout},
	} {
		if field[1] != "" {
			_ = c.headers.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]})
		}
	}
	id := c.next
	c.next += 2
	_ = c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.packed.Bytes(), EndHeaders: true})
	_ = c.framer.WriteData(id, true, framed)
}

// told: a message of a stream; one that is longer than a frame counts more than once.
func (c *connection) told(id uint32) {
	if begun, ok := c.watched[id]; ok {
		c.watchers.messages.Add(1)
		if !begun {
			c.watched[id] = true
			c.watchers.opened.Add(1)
		}
	}
}

func (c *connection) over(id uint32, err error) {
	if _, ok := c.watched[id]; ok {
		delete(c.watched, id)
		c.watchers.why.Store(fmt.Sprint(err))
		c.watchers.ended.Add(1)
	}
}
