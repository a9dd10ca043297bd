package main

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	statev1 "moneystate.example/query-client/moneystate/state/v1"
)

const (
	service = "/moneystate.state.v1.State/"
	state   = "user"
	many    = 20 // records of a batch or a page
)

// call is what is asked, again and again, of users by their numbers.
type call struct {
	path    string
	message func(user int) proto.Message
}

// callOf gives the call of that name; nil: there is none.
func callOf(name string, users int, id func(user int) string) *call {
	record := func(user int) *statev1.RecordName {
		return &statev1.RecordName{State: state, Key: id(user % users)}
	}
	switch name {
	case "get":
		return &call{service + "Get", func(user int) proto.Message {
			return &statev1.GetRequest{Name: record(user)}
		}}
	case "batch-get":
		return &call{service + "BatchGet", func(user int) proto.Message {
			names := make([]*statev1.RecordName, many)
			for n := range names {
				names[n] = record(user + n)
			}
			return &statev1.BatchGetRequest{Names: names}
		}}
	case "list":
		return &call{service + "List", func(user int) proto.Message {
			by := &statev1.ListRequest_State{State: state}
			return &statev1.ListRequest{By: by, Keys: &statev1.KeyRange{Start: id(user)}, PageSize: many}
		}}
	}
	return nil
}

// watch asks for the changes of one user; nil: of all.
func watch(key *string) (string, proto.Message) {
	return service + "Watch", &statev1.WatchRequest{Key: key}
}

func inForm(form string) func(user int) string {
	return func(user int) string { return fmt.Sprintf(form, user) }
}
