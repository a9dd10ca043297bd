// Asks a query server for a user, and says why where there is no answer.
//
//	go run . [-address HOST:PORT] [-tls-ca FILE] [-token-file FILE] USER
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

	queryv1 "moneystate.example/query-client/moneystate/query/v1"
)

func main() {
	address := flag.String("address", "127.0.0.1:8484", "HOST:PORT of the query server")
	ca := flag.String("tls-ca", "", "PEM file: who has signed the server's certificate; empty: no TLS")
	tokenFile := flag.String("token-file", "", "file with the bearer token")
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(*address, *ca, *tokenFile, flag.Arg(0)); err != nil {
		fmt.Fprintln(os.Stderr, told(err))
		os.Exit(1)
	}
}

func run(address, ca, tokenFile, user string) error {
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
	answer, err := queryv1.NewQueryClient(connection).GetUser(ctx, &queryv1.GetUserRequest{UserId: user})
	if err != nil {
		return err
	}
	version := answer.Header.Version
	fmt.Printf("version %s/%d: %s\n", version.Epoch, version.Batch, answer.User.UserId)
	fmt.Printf("country %s, birth year %s\n", personal(answer.User.ResidentCountryCode), personal(answer.User.BirthYear))
	for _, money := range answer.User.Waiting {
		fmt.Printf("waiting: %s, %s %s, for session %s\n", money.MoneyId, money.Amount, money.Currency, money.SessionId)
	}
	return nil
}

func personal(text *queryv1.PersonalText) string {
	switch {
	case text == nil:
		return "unknown"
	case text.Masked:
		return "masked"
	}
	return text.Value
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
