// Asks the query server of a service for a record and for a declared query.
//
//	go run . [-address HOST:PORT] [-tls-ca FILE] [-token-file FILE] get STATE KEY [ID]
//	go run . [...] call QUERY ARGUMENTS        ARGUMENTS: a JSON object
//
// Exit codes: 0 answered, 1 an error of the server (its reason is printed), 2 wrong use.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	statev1 "moneystate.example/query-client/moneystate/state/v1"
)

func main() {
	address := flag.String("address", "127.0.0.1:8484", "HOST:PORT of the query server")
	ca := flag.String("tls-ca", "", "PEM file: who has signed the server's certificate; empty: no TLS")
	tokenFile := flag.String("token-file", "", "file with the bearer token")
	flag.Parse()
	words := flag.Args()
	if len(words) < 3 || len(words) > 4 || (words[0] != "get" && (words[0] != "call" || len(words) != 3)) {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(*address, *ca, *tokenFile, words); err != nil {
		fmt.Fprintln(os.Stderr, told(err))
		os.Exit(1)
	}
}

func run(address, ca, tokenFile string, words []string) error {
	transport := insecure.NewCredentials()
	if ca != "" {
		var err error
		if transport, err = credentials.NewClientTLSFromFile(ca, ""); err != nil {
			return err
		}
	}
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(transport))
	if err != nil {
		return err
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if tokenFile != "" {
		token, err := os.ReadFile(tokenFile)
		if err != nil {
			return err
		}
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	client := statev1.NewStateClient(connection)
	if words[0] == "call" {
		answer, err := client.Call(ctx, &statev1.CallRequest{Query: words[1], Arguments: words[2]})
		if err != nil {
			return err
		}
		fmt.Println(answer.Result.GetJson())
		return nil
	}
	name := &statev1.RecordName{State: words[1], Key: words[2]}
	if len(words) == 4 {
		name.Id = words[3]
	}
	answer, err := client.Get(ctx, &statev1.GetRequest{Name: name})
	if err != nil {
		return err
	}
	for _, record := range answer.Records {
		fmt.Println(record.GetJson())
	}
	return nil
}

// told gives the reason that programs can go by, beside the message for people.
func told(err error) string {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			return fmt.Sprintf("%s: %s", info.Reason, status.Convert(err).Message())
		}
	}
	return err.Error()
}
