// Reads at a fixed rate, for `make bench ARGS=query`: prints one line of JSON with the latencies.
//
// Open loop: each read has its time from a schedule, and its latency counts from then on, so that a server that stalls
// is not spared the reads that would have come meanwhile.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"sort"
	"sync"
	"time"
)

// A generator that sleeps and wakes for each single read takes the processors from what it measures.
const tick = time.Millisecond

type result struct {
	Reads   int     `json:"reads"`
	Failed  int     `json:"failed"`
	Error   string  `json:"error"`
	Seconds float64 `json:"seconds"`
	P50     float64 `json:"p50_ms"`
	P99     float64 `json:"p99_ms"`
	P999    float64 `json:"p999_ms"`
	Max     float64 `json:"max_ms"`

	// of streams beside the reads: messages that they got meanwhile, streams that ended
	Messages int64 `json:"messages"`
	Ended    int64 `json:"ended"`
}

func main() {
	address := flag.String("address", "127.0.0.1:8484", "HOST:PORT of the query server")
	number := flag.Int("connections", 4, "connections that the reads are spread over")
	rate := flag.Int("rate", 3000, "reads a second")
	seconds := flag.Float64("seconds", 10, "how long")
	warm := flag.Float64("warm", 1, "seconds before that, which do not count")
	users := flag.Int("users", 1_000_000, "users to choose from")
	watching := flag.Int("watchers", 0, "streams of changes that are open all the while")
	all := flag.Bool("watch-all", false, "they watch all users, else one each")
	form := flag.String("user-form", "user-%07d", "a user's id, from its number")
	name := flag.String("call", "get", "get (one record), batch-get (20 records) or list (a page of 20)")
	flag.Parse()
	id := inForm(*form)
	call := callOf(*name, *users, id)
	if call == nil {
		flag.Usage()
		os.Exit(2)
	}
	connections := make([]*connection, *number)
	for i := range connections {
		connection, err := dial(*address)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		connections[i] = connection
	}
	user := func() int { return rand.IntN(*users) }
	watchers, err := open(*address, *watching, *all, func() string { return id(user()) })
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	run(connections, call, user, *rate, *warm)
	before := watchers.messages.Load()
	measured := run(connections, call, user, *rate, *seconds)
	measured.Messages, measured.Ended = watchers.messages.Load()-before, watchers.ended.Load()
	_ = json.NewEncoder(os.Stdout).Encode(measured)
}

func run(connections []*connection, call *call, user func() int, rate int, seconds float64) result {
	total := int(float64(rate) * seconds)
	reads := make([]read, total)
	var all sync.WaitGroup
	all.Add(total)
	for n := range reads {
		reads[n] = read{call: call, user: user(), done: all.Done}
	}
	runtime.GC() // now rather than once reads are due
	began := time.Now()
	for n := range reads {
		reads[n].due = began.Add(time.Duration(float64(n) / float64(rate) * float64(time.Second)))
	}
	for sent := 0; sent < total; {
		time.Sleep(time.Until(reads[sent].due) + tick)
		// what fell due meanwhile goes out together, its latency counts from when it was due
		now, some := time.Now(), make([][]*read, len(connections))
		for ; sent < total && !reads[sent].due.After(now); sent++ {
			to := sent % len(connections)
			some[to] = append(some[to], &reads[sent])
		}
		for to, due := range some {
			if len(due) > 0 {
				connections[to].send(due)
			}
		}
	}
	all.Wait()
	return summary(reads, time.Since(began))
}

func summary(reads []read, whole time.Duration) result {
	r := result{Reads: len(reads), Seconds: whole.Seconds()}
	took := make([]float64, len(reads))
	for n := range reads {
		took[n] = float64(reads[n].took) / float64(time.Millisecond)
		if err := reads[n].err; err != nil {
			r.Failed++
			r.Error = err.Error()
		}
	}
	if len(took) > 0 {
		sort.Float64s(took)
		at := func(q float64) float64 { return took[min(len(took)-1, int(q*float64(len(took))))] }
		r.P50, r.P99, r.P999, r.Max = at(0.5), at(0.99), at(0.999), took[len(took)-1]
	}
	return r
}
