package archtest

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "soapway"

// A rule says what one package may import: packages of this module by their
// path below it, and the external modules it may reach.
type rule struct {
	ours     []string
	test     []string // only its tests may import these packages of ours
	external []string // prefixes of import paths outside the standard library
}

// rules is the architecture (docs/architecture.md). A package that is not in
// it fails the test, so that a new one is placed on purpose.
var rules = map[string]rule{
	"bench": {
		ours: []string{"internal/frame", "soapcodec"},
		test: []string{"internal/memnet"},
		// The server of NATS is the far end of an rpc test, and what the queue is compared with.
		external: []string{
			"github.com/HdrHistogram/hdrhistogram-go", "github.com/nats-io/nats.go", "github.com/nats-io/nats-server/v2", "github.com/prometheus/procfs",
			"golang.org/x/perf/benchfmt", "golang.org/x/perf/benchmath", "golang.org/x/sys",
		},
	},
	"cmd/gateway": {
		ours:     []string{"bench", "config", "internal/admin", "internal/app", "internal/bundle", "internal/durable", "internal/enrol", "internal/frame", "internal/telemetry", "queue", "soapcodec"},
		test:     []string{"internal/frame"},
		external: []string{"github.com/spf13/cobra", "github.com/spf13/pflag", "golang.org/x/term"},
	},
	"config": {
		test:     []string{"internal/golden"},
		external: []string{"github.com/goccy/go-yaml", "github.com/fsnotify/fsnotify"},
	},
	"xmlstream": {
		test:     []string{"internal/golden"},
		external: []string{"golang.org/x/sys/cpu", "golang.org/x/text"},
	},
	"soapcodec": {
		ours: []string{"xmlstream"},
		test: []string{"internal/conformance", "internal/golden"},
	},
	"soapcodec/wsdl": {
		ours: []string{"soapcodec", "xmlstream"},
		test: []string{"internal/golden"},
	},
	"proxy": {
		ours:     []string{"soapcodec", "soapcodec/wsdl", "proxy/describe", "xmlstream", "proxy/balance", "proxy/guard", "proxy/health", "internal/field", "internal/frame"},
		test:     []string{"internal/golden", "internal/memnet"},
		external: []string{"github.com/google/uuid", "github.com/klauspost/compress", "github.com/andybalholm/brotli"},
	},
	"proxy/balance":      {},
	"proxy/describe":     {ours: []string{"soapcodec", "soapcodec/wsdl", "xmlstream"}},
	"proxy/health":       {},
	"proxy/guard":        {ours: []string{"internal/field"}, external: []string{"golang.org/x/crypto/bcrypt"}},
	"proxy/listen":       {ours: []string{"proxy", "proxy/guard", "soapcodec", "internal/field", "internal/frame", "internal/h1", "internal/h2"}, test: []string{"internal/memnet"}},
	"proxy/upstream":     {ours: []string{"proxy", "soapcodec", "internal/field", "internal/frame", "internal/h1"}, test: []string{"internal/memnet"}},
	"internal/durable":   {},
	"internal/enrol":     {ours: []string{"internal/durable"}},
	"examples/two-sites": {},
	"internal/acme": {
		test:     []string{"internal/acmelab"},
		external: []string{"github.com/caddyserver/certmagic", "go.uber.org/zap"},
	},
	"internal/acmelab": {external: []string{"golang.org/x/net/dns/dnsmessage"}}, // in no list of ours: only tests may use it
	"internal/admin": {
		ours: []string{"internal/redact", "internal/selftest", "internal/telemetry"},
		test: []string{"internal/memnet"},
	},
	"internal/alert": {},
	"internal/app": {
		ours: []string{
			"config", "proxy", "proxy/balance", "proxy/describe", "proxy/guard", "proxy/health", "proxy/listen", "proxy/upstream", "queue", "soapcodec", "soapcodec/wsdl", "xmlstream",
			"internal/acme", "internal/admin", "internal/alert", "internal/bundle", "internal/enrol", "internal/field", "internal/lifecycle", "internal/redact", "internal/retry", "internal/selftest", "internal/telemetry", "queue", "queue/relay",
		},
		test: []string{"internal/frame"},
	},
	"internal/archtest":    {},
	"internal/benchversus": {},
	"internal/bundle":      {},
	"internal/casetest": {
		test:     []string{"xmlstream", "soapcodec", "internal/xmldsig", "internal/acmelab"},
		external: []string{"golang.org/x/text", "github.com/klauspost/compress", "github.com/andybalholm/brotli", "go.opentelemetry.io/proto/slim", "google.golang.org/protobuf"},
	},
	"internal/conformance": {test: []string{"soapcodec", "xmlstream"}},
	"internal/faultlab": {
		test:     []string{"internal/frame"},
		external: []string{"github.com/nats-io/nats-server/v2", "github.com/nats-io/nats.go", "golang.org/x/sys"},
	},
	"internal/frame":       {},
	"internal/golden":      {external: []string{"golang.org/x/tools/txtar"}},
	"internal/field":       {},
	"internal/h1":          {ours: []string{"internal/field"}, external: []string{"golang.org/x/sys"}, test: []string{"internal/memnet"}},
	"internal/h2":          {ours: []string{"internal/field", "internal/h1"}, external: []string{"golang.org/x/net"}, test: []string{"internal/memnet"}},
	"internal/lifecycle":   {},
	"internal/memnet":      {},
	"internal/proxyversus": {},
	"internal/redact":      {ours: []string{"soapcodec", "xmlstream"}},
	"internal/reference":   {external: []string{"github.com/goccy/go-yaml"}},
	"internal/retry":       {},
	"internal/selftest":    {ours: []string{"internal/durable"}},
	"internal/telemetry": {
		ours: []string{"proxy"},
		test: []string{"internal/field", "soapcodec"},
		external: []string{
			"github.com/prometheus/client_golang", "github.com/prometheus/client_model", "github.com/prometheus/common",
			"go.opentelemetry.io/otel", "go.opentelemetry.io/proto/slim", "google.golang.org/protobuf", "github.com/klauspost/compress/gzip",
		},
	},
	"internal/xmldsig": {ours: []string{"xmlstream"}}, // in no list of ours: only tests may use it
	"interop":          {test: []string{"internal/conformance", "internal/xmldsig"}},
	"queue/relay":      {ours: []string{"queue"}, test: []string{"internal/memnet"}, external: []string{"github.com/klauspost/compress/zstd"}},
	"internal/uitest":  {test: []string{"bench", "queue"}, external: []string{"github.com/chromedp/chromedp", "github.com/chromedp/cdproto"}}, // tests only, against the binary
	"queue": {
		ours:     []string{"internal/durable", "internal/retry"},
		external: []string{"github.com/nats-io/nats-server/v2", "github.com/nats-io/nats.go", "github.com/minio/highwayhash", "github.com/klauspost/compress/zstd", "golang.org/x/sys", "github.com/google/uuid"},
	},
}

// testLibraries may be imported by any package's tests.
var testLibraries = []string{"github.com/google/go-cmp", "github.com/rogpeppe/go-internal", "golang.org/x/text", "golang.org/x/net/http2"}

func TestImports(t *testing.T) {
	for _, p := range packages(t) {
		name := strings.TrimPrefix(p.ImportPath, module+"/")
		r, ok := rules[name]
		if !ok {
			t.Errorf("%s has no place in the architecture: add it to rules", name)
			continue
		}
		for _, imp := range p.Imports {
			if !r.allows(name, imp, false) {
				t.Errorf("%s must not import %s", name, imp)
			}
		}
		for _, imp := range slices.Concat(p.TestImports, p.XTestImports) {
			if !r.allows(name, imp, true) {
				t.Errorf("tests of %s must not import %s", name, imp)
			}
		}
	}
}

func (r rule) allows(self, imp string, inTest bool) bool {
	if ours, ok := strings.CutPrefix(imp, module+"/"); ok {
		return ours == self || slices.Contains(r.ours, ours) || inTest && slices.Contains(r.test, ours)
	}
	if first, _, _ := strings.Cut(imp, "/"); !strings.Contains(first, ".") {
		return true // standard library
	}
	allowed := r.external
	if inTest {
		allowed = slices.Concat(allowed, testLibraries)
	}
	return slices.ContainsFunc(allowed, func(prefix string) bool { return imp == prefix || strings.HasPrefix(imp, prefix+"/") })
}

// TestNoEncodingXML: the product reads and writes XML with its own packages
// only; encoding/xml, which accepts what is not well-formed, may serve tests as
// an oracle.
func TestNoEncodingXML(t *testing.T) {
	for _, p := range packages(t) {
		if slices.Contains(p.Imports, "encoding/xml") {
			t.Errorf("%s imports encoding/xml", p.ImportPath)
		}
	}
}

func TestPackageComments(t *testing.T) {
	for _, p := range packages(t) {
		if len(p.GoFiles) > 0 && p.Doc == "" {
			t.Errorf("%s has no package comment", p.ImportPath)
		}
	}
}

// TestFiles reads every Go file of the module for what linters do not know.
func TestFiles(t *testing.T) {
	for _, path := range goFiles(t) {
		isTest := strings.HasSuffix(path, "_test.go")
		inCmd := strings.HasPrefix(path, "cmd/")
		fset := token.NewFileSet()
		src, err := os.ReadFile(filepath.Join(root(t), path))
		if err != nil {
			t.Fatal(err)
		}
		if lines := strings.Count(string(src), "\n"); lines > 800 {
			t.Errorf("%s has %d lines: split it by concept", path, lines)
		}
		f, err := parser.ParseFile(fset, path, src, parser.SkipObjectResolution)
		if err != nil {
			t.Error(err)
			continue
		}
		bubbles := usesSynctest(f)
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			switch name := selector(call.Fun); {
			case strings.HasPrefix(name, "fmt.Print") && !inCmd && !isExample(path):
				t.Errorf("%v: %s outside cmd", fset.Position(call.Pos()), name)
			case name == "time.Sleep" && isTest && !bubbles:
				t.Errorf("%v: time.Sleep in a test that has no synctest bubble", fset.Position(call.Pos()))
			case (name == "os.Getenv" || name == "os.LookupEnv" || name == "os.Environ") && !inCmd && !isTest:
				t.Errorf("%v: %s outside cmd", fset.Position(call.Pos()), name)
			}
			return true
		})
	}
}

// TestSpecificationsAreListed: a specification that a comment names by section
// is one that docs/specifications.md speaks of.
func TestSpecificationsAreListed(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join(root(t), "docs", "specifications.md"))
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`\b(XML 1\.0|Namespaces(?: in XML)? 1\.0|SOAP 1\.[12](?: Part \d)?|RFC \d{3,5}|WS-I BP \d\.\d|WS-Addressing [\d./]+\d)[ ,]*§`)
	for _, path := range goFiles(t) {
		src, err := os.ReadFile(filepath.Join(root(t), path))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range named.FindAllStringSubmatch(string(src), -1) {
			if !strings.Contains(string(doc), m[1]) {
				t.Errorf("%s names %q, which docs/specifications.md does not list", path, m[1])
			}
		}
	}
}

func usesSynctest(f *ast.File) bool {
	return slices.ContainsFunc(f.Imports, func(i *ast.ImportSpec) bool {
		path, _ := strconv.Unquote(i.Path.Value)
		return path == "testing/synctest"
	})
}

func isExample(path string) bool {
	return strings.HasSuffix(path, "example_test.go") || strings.Contains(filepath.ToSlash(path), "examples/")
}

func selector(e ast.Expr) string {
	s, ok := e.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	x, ok := s.X.(*ast.Ident)
	if !ok {
		return ""
	}
	return x.Name + "." + s.Sel.Name
}

func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func goFiles(t *testing.T) (files []string) {
	t.Helper()
	top := root(t)
	err := filepath.WalkDir(top, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := d.Name(); d.IsDir() && path != top && (strings.HasPrefix(name, ".") || name == "testdata" || name == "node_modules") {
			return filepath.SkipDir
		}
		if strings.HasSuffix(path, ".go") {
			rel, err := filepath.Rel(top, path)
			if err != nil {
				return err
			}
			files = append(files, filepath.ToSlash(rel))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatal("no Go files found")
	}
	return files
}

type pkg struct {
	ImportPath, Doc                             string
	GoFiles, Imports, TestImports, XTestImports []string
}

func packages(t *testing.T) (pkgs []pkg) {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Doc,GoFiles,Imports,TestImports,XTestImports", module+"/...")
	cmd.Dir = root(t)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs
		} else if err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
}
