// Point reads at a fixed rate, for `make bench ARGS=query`: prints one line of JSON with the latencies.
//
// Open loop: each read has its time from a schedule, and its latency counts from then on, so that a server that stalls
// is not spared the reads that would have come meanwhile.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"sort"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	queryv1 "moneystate.example/query-client/moneystate/query/v1"
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
}

func main() {
	address := flag.String("address", "127.0.0.1:8484", "HOST:PORT of the query server")
	connections := flag.Int("connections", 4, "connections that the reads are spread over")
	rate := flag.Int("rate", 3000, "reads a second")
	seconds := flag.Float64("seconds", 10, "how long")
	warm := flag.Float64("warm", 1, "seconds before that, which do not count")
	users := flag.Int("users", 1_000_000, "users to choose from")
	form := flag.String("user-form", "user-%07d", "a user's id, from its number")
	flag.Parse()
	clients := make([]queryv1.QueryClient, *connections)
	for i := range clients {
		connection, err := grpc.NewClient(*address, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		clients[i] = queryv1.NewQueryClient(connection)
	}
	read := func(n int) error {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		user := fmt.Sprintf(*form, rand.IntN(*users))
		_, err := clients[n%len(clients)].GetUser(ctx, &queryv1.GetUserRequest{UserId: user})
		return err
	}
	run(read, *rate, *warm)
	_ = json.NewEncoder(os.Stdout).Encode(run(read, *rate, *seconds))
}

func run(read func(int) error, rate int, seconds float64) result {
	total := int(float64(rate) * seconds)
	took := make([]float64, total)
	errors := make([]error, total)
	var all sync.WaitGroup
	began := time.Now()
	for n := range total {
		due := began.Add(time.Duration(float64(n) / float64(rate) * float64(time.Second)))
		if wait := time.Until(due); wait > 0 {
			time.Sleep(wait + tick) // what falls due meanwhile goes out together, its latency counts from when it was due
		}
		all.Add(1)
		go func() {
			defer all.Done()
			errors[n] = read(n)
			took[n] = float64(time.Since(due)) / float64(time.Millisecond)
		}()
	}
	all.Wait()
	r := result{Reads: total, Seconds: time.Since(began).Seconds()}
	for _, err := range errors {
		if err != nil {
			r.Failed++
			r.Error = err.Error()
		}
	}
	if total > 0 {
		sort.Float64s(took)
		at := func(q float64) float64 { return took[min(total-1, int(q*float64(total)))] }
		r.P50, r.P99, r.P999, r.Max = at(0.5), at(0.99), at(0.999), took[total-1]
	}
	return r
}
