package bench

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite results.schema.json and the golden files")

// TestSchema: results.schema.json says what the types say, with their comments.
func TestSchema(t *testing.T) {
	g := &schemaMaker{comments: fieldComments(t), defs: map[string]any{}}
	root := g.object(reflect.TypeFor[Results]())
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "results of gateway bench, schema 1"
	root["$defs"] = g.defs
	root["properties"].(map[string]any)["schema"] = map[string]any{"const": Schema}
	want, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	want = append(want, '\n')
	if *update {
		if err := os.WriteFile("results.schema.json", want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(want, ResultsSchema) {
		t.Error("results.schema.json is not what the types say: go test ./bench -run TestSchema -update")
	}
}

// schemaMaker makes a schema of types.
type schemaMaker struct {
	comments map[string]string // by Type.Field
	defs     map[string]any
}

func (g *schemaMaker) of(t reflect.Type) map[string]any {
	switch t.Kind() {
	case reflect.Pointer:
		return g.of(t.Elem())
	case reflect.String:
		if t == reflect.TypeFor[Verdict]() {
			return map[string]any{"enum": []Verdict{Valid, Disturbed, Generator, Invalid, Wrong}}
		}
		return map[string]any{"type": "string"}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return map[string]any{"type": "integer"}
	case reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.Slice:
		return map[string]any{"type": "array", "items": g.of(t.Elem())}
	case reflect.Map:
		return map[string]any{"type": "object"}
	case reflect.Interface:
		return map[string]any{}
	}
	if t == reflect.TypeFor[time.Time]() {
		return map[string]any{"type": "string", "format": "date-time"}
	}
	if g.defs[t.Name()] == nil {
		g.defs[t.Name()] = true // a type may contain itself
		g.defs[t.Name()] = g.object(t)
	}
	return map[string]any{"$ref": "#/$defs/" + t.Name()}
}

func (g *schemaMaker) object(t reflect.Type) map[string]any {
	properties, required := map[string]any{}, []string{}
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		p := g.of(f.Type)
		if c := g.comments[t.Name()+"."+f.Name]; c != "" {
			p["description"] = c
		}
		properties[name] = p
		if options != "omitempty" {
			required = append(required, name)
		}
	}
	return map[string]any{"type": "object", "properties": properties, "required": required, "additionalProperties": false}
}

// fieldComments reads the comments of the fields of all types of this package.
func fieldComments(t *testing.T) map[string]string {
	t.Helper()
	comments := map[string]string{}
	for _, file := range []string{"result.go", "limits.go"} {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			s, ok := spec.Type.(*ast.StructType)
			if !ok {
				return false
			}
			for _, field := range s.Fields.List {
				text := strings.Join(strings.Fields(field.Doc.Text()+" "+field.Comment.Text()), " ")
				for _, name := range field.Names {
					comments[spec.Name.Name+"."+name.Name] = text
				}
			}
			return false
		})
	}
	return comments
}

// TestResultsFitTheSchema: what is written is what the schema says, and reads
// back the same; what it does not say is refused by it.
func TestResultsFitTheSchema(t *testing.T) {
	r := sampleResults()
	var b bytes.Buffer
	if err := WriteJSON(&b, r); err != nil {
		t.Fatal(err)
	}
	if problems := validate(t, b.Bytes()); len(problems) > 0 {
		t.Errorf("results.json does not fit: %q", problems)
	}
	again, err := ReadJSON(bytes.NewReader(b.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(again.Tests[0].Runs, r.Tests[0].Runs) {
		t.Errorf("read back: got %+v, want %+v", again.Tests[0].Runs, r.Tests[0].Runs)
	}
	for name, change := range map[string]func(map[string]any){
		"another schema":    func(m map[string]any) { m["schema"] = 2.0 },
		"an unknown field":  func(m map[string]any) { m["color"] = "red" },
		"a missing field":   func(m map[string]any) { delete(m, "env") },
		"an odd verdict":    func(m map[string]any) { m["tests"].([]any)[0].(map[string]any)["verdict"] = "fine" },
		"a number in words": func(m map[string]any) { m["env"].(map[string]any)["cpus"] = "two" },
	} {
		var m map[string]any
		if err := json.Unmarshal(b.Bytes(), &m); err != nil {
			t.Fatal(err)
		}
		change(m)
		changed, _ := json.Marshal(m)
		if len(validate(t, changed)) == 0 {
			t.Errorf("%s fits", name)
		}
	}
	if _, err := ReadJSON(strings.NewReader(`{"schema": 2}`)); err == nil || !strings.Contains(err.Error(), "schema 2") {
		t.Errorf("schema 2: got %v", err)
	}
}

// validate checks a document against results.schema.json, with the keywords that
// it uses.
func validate(t *testing.T, doc []byte) []string {
	t.Helper()
	var schema map[string]any
	var v any
	if err := json.Unmarshal(ResultsSchema, &schema); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(doc, &v); err != nil {
		t.Fatal(err)
	}
	c := &validator{defs: schema["$defs"].(map[string]any)}
	c.check("", schema, v)
	return c.problems
}

type validator struct {
	defs     map[string]any
	problems []string
}

func (c *validator) check(path string, schema map[string]any, v any) {
	bad := func(format string, args ...any) {
		c.problems = append(c.problems, path+": "+fmt.Sprintf(format, args...))
	}
	if ref, ok := schema["$ref"].(string); ok {
		c.check(path, c.defs[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any), v)
		return
	}
	if want, ok := schema["const"]; ok && v != want {
		bad("got %v, want %v", v, want)
	}
	if enum, ok := schema["enum"].([]any); ok && !slices.Contains(enum, v) {
		bad("%v is none of %v", v, enum)
	}
	switch schema["type"] {
	case "string":
		if _, ok := v.(string); !ok {
			bad("no string: %v", v)
		}
	case "boolean":
		if _, ok := v.(bool); !ok {
			bad("no boolean: %v", v)
		}
	case "number", "integer":
		f, ok := v.(float64)
		if !ok || schema["type"] == "integer" && f != math.Trunc(f) {
			bad("no %s: %v", schema["type"], v)
		}
	case "array":
		list, ok := v.([]any)
		if !ok {
			bad("no array: %v", v)
		}
		for i, item := range list {
			c.check(fmt.Sprintf("%s[%d]", path, i), schema["items"].(map[string]any), item)
		}
	case "object":
		c.object(path, schema, v, bad)
	}
}

func (c *validator) object(path string, schema map[string]any, v any, bad func(string, ...any)) {
	m, ok := v.(map[string]any)
	if !ok {
		bad("no object: %v", v)
		return
	}
	properties, ok := schema["properties"].(map[string]any)
	if !ok {
		return
	}
	for name, value := range m {
		p, known := properties[name].(map[string]any)
		if !known {
			bad("unknown field %s", name)
			continue
		}
		c.check(path+"."+name, p, value)
	}
	for _, name := range schema["required"].([]any) {
		if _, ok := m[name.(string)]; !ok {
			bad("no field %v", name)
		}
	}
}

// sampleResults are results with every kind of field.
func sampleResults() *Results {
	m := newMeter(nil, nil, nil)
	m.Callers(1)
	m.StartAt(time.Now().Add(-time.Second))
	for i := range 1000 {
		m.Shard(i).Took(time.Duration(100+i) * time.Microsecond)
	}
	m.StopAt(m.Began().Add(time.Second))
	m.Measure("rss", 1<<20, "B")
	run, _ := m.run()
	run.Little = nil
	run.Client = Cost{CPU: 0.03, Reads: 2000, Writes: 1000, Switches: 1100}
	run.Server = &Cost{CPU: 0.05, Reads: 2000, Writes: 1000, Switches: 900}
	run.Foreign, run.Steal = new(0.01), new(0.0)
	second := run
	second.Value, second.Rate, second.Verdict = 1010, 1010, Disturbed
	second.Reasons = []string{"12 % of the machine was used by others"}
	runs := []Run{run, second}
	ping := Test{
		Name: "ping", Combo: "ff", Label: "framed - framed", Founding: "FastSocketSender-FastSocketBinder",
		Loop: LoopClosed, Processes: "separate", Unit: "messages/s", Conns: 1, Size: 225,
		Params: map[string]any{"count": 1000}, Cold: &run, Runs: runs,
		Limit: &Limit{"TCP round trip of 1 octet", 20_000},
	}
	ping.Summary = summarize(runs)
	ping.Summary.Latency = run.Latency
	ping.Summary.PerOp.Ceiling = 25_000 // that of two processors, on any machine
	ping.Memory = &MemoryUse{Of: "server", RSS: 24 << 20, Peak: 31 << 20, PSS: 22 << 20, VSZ: 1600 << 20, Files: 14}
	ping.Measures = meanMeasures(runs)
	judgeTest(&ping, &Spec{Loop: LoopClosed, Serial: true}, 0.025)
	broken := Test{
		Name: "threads", Combo: "hh", Label: "http client - http listener, one message a second each", Loop: LoopOpen, Unit: "threads",
		Runs: []Run{{Value: 64, Verdict: Wrong, Errors: 7, FirstError: `a "wrong" reply`}}, Limiter: "cpu", Verdict: Wrong,
		Reasons: []string{"7 of 64 replies failed or were wrong"}, Detail: Found{Stable: 64, Probes: []Probe{
			{Threads: 64, Window: 10, Scheduled: 640, Sent: 640, P50: 180, P99: 900, LagP99: 1100, Stable: true},
			{Threads: 128, Window: 10, Scheduled: 1280, Sent: 1200, Errors: 7, P50: 90_000, P99: 412_000, LagP99: 1200, Why: "p99 412 ms > 250 ms"},
		}},
	}
	broken.Summary = summarize(broken.Runs)
	return &Results{
		Schema: Schema,
		Env: Env{
			Version: "1.2.3", Commit: "0123456789abcdef-dirty", Go: "go1.26", OS: "linux", Arch: "amd64", CPU: "A CPU", CPUs: 2, GOMAXPROCS: 2,
			Kernel: "6.18", Host: "here", Started: time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC), Seconds: 3.5, Command: []string{"bench", "ping"},
		},
		Limits: &Limits{FloorUS: 40, FloorMeanUS: 50, MemcpyGBs: 10.5, Sync: &SyncLimit{"/data", 400, 300, 2000}, Cores: 2, Files: 1024, Unmeasured: []string{"clock: stopped"}},
		Tests:  []Test{ping, broken},
		Require: []Check{
			{Expr: "ping.ff.rate>=1000", Row: "ping.ff", Got: 1005, OK: true},
			{Expr: "ping.ff.p99<1ms", Row: "ping.ff", Got: 0.00109, Unit: "s"},
			{Expr: "net.raw.rate>1", Void: false},
		},
		Verdict: "wrong replies: 1 DISTURBED, 1 WRONG", Notes: []string{"a note"},
	}
}
