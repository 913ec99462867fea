package admin

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"soapway/internal/selftest"
	"soapway/internal/telemetry"
)

// TestSchemas: what openapi.yaml says of an answer are the fields that it has.
func TestSchemas(t *testing.T) {
	doc, err := os.ReadFile("openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, schemas, _ := strings.Cut(string(doc), "\n  schemas:\n")
	for name, v := range map[string]any{
		"Counts": telemetry.Counts{}, "Hour": Hour{}, "Route": Route{}, "Backend": Backend{}, "Node": Node{}, "Link": Link{}, "History": History{},
		"Configuration": Configuration{}, "Reload": Reload{}, "Event": Event{}, "Tick": Tick{}, "Status": Status{}, "Store": StoreInfo{},
		"RouteStats": RouteStats{}, "Entry": Entry{}, "Attempt": Attempt{}, "Message": Message{}, "Imported": Imported{}, "Moved": Moved{},
		"Problem": Problem{}, "SelfTests": selftest.State{}, "SelfTest": selftest.Test{}, "RunningTest": selftest.Running{}, "Report": selftest.Report{}, "ScrubEvent": ScrubEvent{},
	} {
		_, schema, ok := strings.Cut("\n"+schemas, "\n    "+name+":\n")
		if !ok {
			t.Errorf("schema %s is missing", name)
			continue
		}
		if end := regexp.MustCompile(`(?m)^ {0,4}\S`).FindStringIndex(schema); end != nil {
			schema = schema[:end[0]]
		}
		var described []string
		for _, m := range regexp.MustCompile(`(?m)^ {8}([a-z0-9_]+):`).FindAllStringSubmatch(schema, -1) {
			described = append(described, m[1])
		}
		slices.Sort(described)
		have := fieldNames(reflect.TypeOf(v))
		slices.Sort(have)
		if diff := cmp.Diff(have, described); diff != "" {
			t.Errorf("schema %s (-answered +described):\n%s", name, diff)
		}
	}
	for name, words := range map[string][]string{"Event.kind": eventKinds, "Backend.state": backendStates, "State": states, "Link.mode": {LinkPush, LinkPushAndPull, LinkAccept}, "Link.state": {LinkUp, LinkDown, LinkIdle}, "Report.result": {selftest.Done, selftest.Cancelled, selftest.Late, selftest.Failed}} {
		if !strings.Contains(schemas, "enum: ["+strings.Join(words, ", ")+"]") {
			t.Errorf("the values of %s are not %v", name, words)
		}
	}
}

// An operation is a method of a path as openapi.yaml describes it.
type operation struct{ method, path string }

// operations are all that the document has that a gateway serves.
func operations(t *testing.T) (all []operation) {
	t.Helper()
	w := ask(Options{}, "GET", "/api/v1/openapi.yaml", "")
	paths, _, _ := strings.Cut(w.Body.String(), "\ncomponents:")
	path := ""
	for line := range strings.Lines(paths) {
		switch m := regexp.MustCompile(`^ {2}(/\S*):\n$|^ {4}(get|post|put|patch|delete):\n$`).FindStringSubmatch(line); {
		case m == nil:
		case m[1] != "":
			path = m[1]
		case path != "":
			all = append(all, operation{strings.ToUpper(m[2]), path})
		}
	}
	if len(all) < 25 {
		t.Fatalf("the document has %d operations: %v", len(all), all)
	}
	return all
}

// eventKinds are all.
var eventKinds = []string{EventDead, EventDown, EventUp, EventClock, EventReload, EventStore, EventChange, EventTest, EventRefused}

// backendStates are all.
var backendStates = []string{BackendUp, BackendDegraded, BackendDown, BackendHeld, BackendDenied}

// fieldNames are the names of the fields of a struct in JSON.
func fieldNames(t reflect.Type) (names []string) {
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() {
			continue
		}
		if f.Anonymous && name == "" {
			names = append(names, fieldNames(f.Type)...)
			continue
		}
		names = append(names, name)
	}
	return names
}
