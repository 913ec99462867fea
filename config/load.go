package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// Options are the sources of a load beside the file. The zero value reads the
// file alone.
type Options struct {
	// Env is the environment as os.Environ gives it.
	Env []string
	// Set holds values by key, above all other sources, such as
	// "admin.address": "127.0.0.1:9000". It is for command line flags.
	Set map[string]string
}

// Find returns the path of the configuration: explicit unless it is empty,
// else gateway.yaml in the working folder, else
// /etc/gateway/gateway.yaml. When there is none the error is
// fs.ErrNotExist and names both places. Whether an explicit file exists is
// left to [Load].
func Find(explicit string) (string, error) {
	return find(explicit, "gateway.yaml", "/etc/gateway/gateway.yaml")
}

func find(explicit string, places ...string) (string, error) {
	if explicit != "" {
		return explicit, nil
	}
	for _, p := range places {
		_, err := os.Stat(p)
		if err == nil {
			return p, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("config: %w", err)
		}
	}
	return "", fmt.Errorf("config: no configuration, looked for %s: %w", strings.Join(places, " and "), fs.ErrNotExist)
}

// Load reads, completes and checks a configuration. What is wrong with it is
// a [Problems], all at once; another error is that of reading the file.
func Load(path string, opt Options) (*Config, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	return loadBytes(path, info, data, opt)
}

// LoadBytes is [Load] of a file at path with the given content: relative paths
// in it are relative to the folder of path.
func LoadBytes(path string, data []byte, opt Options) (*Config, error) {
	return loadBytes(path, nil, data, opt)
}

// loadBytes is LoadBytes; info is the state in which the file was read, nil if
// it was not.
func loadBytes(path string, info fs.FileInfo, data []byte, opt Options) (*Config, error) {
	l, err := newLoader(path)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	l.info = info
	l.run(data, opt)
	if len(l.problems) > 0 {
		return nil, l.problems.sort()
	}
	return l.cfg, nil
}

func newLoader(path string) (*loader, error) {
	full, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	return &loader{
		path:        path,
		full:        full,
		dir:         filepath.Dir(full),
		cfg:         &Config{},
		files:       map[string]bool{full: true},
		places:      map[string]place{},
		keyPlaces:   map[string]place{},
		setIndex:    map[string]int{},
		items:       map[string][]string{},
		failed:      map[string]bool{},
		failedBelow: map[string]bool{},
		meant:       map[string]bool{},
		hidden:      map[string]string{},
		renamed:     map[string]string{},
		defaults:    map[reflect.Type]reflect.Value{},
	}, nil
}

// A loader is one load.
type loader struct {
	path, dir string
	full      string      // absolute path
	info      fs.FileInfo // of the file when it was opened; nil for LoadBytes
	cfg       *Config
	problems  Problems

	files       map[string]bool                // to watch
	places      map[string]place               // of the value of each key that was written
	keyPlaces   map[string]place               // of the key itself, where it stands in the file
	set         []setKey                       // every key that was written
	setIndex    map[string]int                 // path -> set
	items       map[string][]string            // path of a list -> paths of its items
	failed      map[string]bool                // keys with a problem of their own
	failedBelow map[string]bool                // keys with a problem further down
	meant       map[string]bool                // keys that an unknown one was taken for
	hidden      map[string]string              // how the values of keys were written that must not be shown
	renamed     map[string]string              // paths that have such a value -> what they are shown as
	borrowed    bool                           // the scalar just read has such a value of another key
	values      int                            // decoded so far
	defaults    map[reflect.Type]reflect.Value // of each struct type
}

// report notes a problem with a key.
func (l *loader) report(at place, key, message, hint string) {
	p := Problem{File: l.path, Key: l.shownKey(key), Message: message, Hint: hint}
	p.at(at)
	l.problems = append(l.problems, p)
	l.failed[key] = true
	for i, c := range key {
		if c == '.' || c == '[' {
			l.failedBelow[key[:i]] = true
		}
	}
}

// reportKey notes a problem at the place of a key, or of the nearest one above
// it that was written.
func (l *loader) reportKey(key, message, hint string) {
	l.report(l.placeOf(key), key, message, hint)
}

func (l *loader) placeOf(key string) place { return nearestPlace(l.places, key) }

// run goes through the sources, then completes and checks the result.
func (l *loader) run(data []byte, opt Options) {
	env := map[string]string{}
	for _, e := range opt.Env {
		if name, value, ok := strings.Cut(e, "="); ok {
			env[name] = value
		}
	}
	root := reflect.ValueOf(l.cfg).Elem()
	l.setDefaults(root)
	used := map[string]bool{}
	tree := parseTree(l.path, data, expander(env, used), l.report)
	if tree == nil && len(l.problems) > 0 {
		return // nothing more can be said about a file that is not YAML
	}
	start := place{source: l.path, line: 1, col: 1}
	if tree != nil {
		// QNames anywhere in the file need the prefixes.
		slices.SortStableFunc(tree.entries, func(a, b entry) int {
			switch {
			case a.key == b.key:
				return 0
			case a.key == "namespaces":
				return -1
			case b.key == "namespaces":
				return 1
			}
			return 0
		})
		start = tree.at
		l.reportNotes(tree, "")
		if tree.kind == mapping {
			l.decodeStruct(root, tree, "", "", rules{})
		} else {
			l.report(tree.at, "", fmt.Sprintf("%s where the keys of a configuration belong", tree.kind), "such as listeners: and routes:")
			return
		}
	}
	l.applyEnv(env, used)
	l.applySet(opt.Set)
	l.checkRequired(root, "", start)
	l.finish()
	l.checkNotYet()
	l.check()
}

// finish fills in the defaults that depend on other keys and what a Config
// knows about itself.
func (l *loader) finish() {
	c := l.cfg
	m := &meta{path: l.path, places: l.places, hidden: l.hidden, renamed: l.renamed, items: l.items, inline: map[string]*Backend{}}
	m.vars = sync.OnceValue(func() []Variable {
		vars := l.variables()
		out := make([]Variable, len(vars))
		for i, v := range vars {
			out[i] = Variable{Name: v.name, Key: v.path}
		}
		return out
	})
	for file := range l.files {
		m.files = append(m.files, file)
	}
	slices.Sort(m.files)
	m.seen = look(m.files)
	if l.info != nil {
		m.seen[l.full] = l.info
	}
	if !l.isSet("limits.buffer") && !c.Limits.MaxMessage.None() {
		l.boundBuffer(&c.Limits, "limits")
	}
	for name, b := range c.Backends {
		if path := joined("backends", name); !l.isSet(path+".queue_wait") && b.QueueWait > b.ConnectTimeout {
			b.QueueWait = b.ConnectTimeout
			if shown, ok := l.hidden[path+".connect_timeout"]; ok {
				l.hidden[path+".queue_wait"] = shown
			}
		}
	}
	for i := range c.Routes {
		r := &c.Routes[i]
		path := l.items["routes"][i]
		l.inheritLimits(&r.Limits.Limits, path+".limits")
		if r.Assurance == "" {
			r.Assurance = AtLeastOnce
			if r.Delivery == DeliverySync {
				r.Assurance = AtMostOnce
			}
		}
		if !slices.Contains(r.Methods, "POST") {
			// At the end, so that the others are still where the file has them.
			r.Methods = slices.Concat(r.Methods, []string{"POST"})
		}
		if len(r.To) > 0 {
			b := &Backend{}
			l.setDefaults(reflect.ValueOf(b).Elem())
			b.Nodes = r.To
			if r.Timeout == 0 {
				r.Timeout = b.Timeout
			}
			b.Timeout = r.Timeout
			m.inline[r.Name] = b
		}
	}
	for i := range c.Listeners {
		if t := c.Listeners[i].TLS; t != nil && t.ClientCA != "" && t.ClientAuth == "" {
			t.ClientAuth = ClientAuthRequire
		}
	}
	m.replies = l.replyBackends()
	c.meta = m
}

// inheritLimits gives a route the limits of the whole gateway where it sets
// none of its own.
func (l *loader) inheritLimits(own *Limits, path string) {
	v, global := reflect.ValueOf(own).Elem(), reflect.ValueOf(l.cfg.Limits)
	for _, f := range fieldsOf(v.Type()) {
		if !l.isSet(joined(path, f.key)) {
			v.FieldByIndex(f.index).Set(global.FieldByIndex(f.index))
			if shown, ok := l.hidden[joined("limits", f.key)]; ok {
				l.hidden[joined(path, f.key)] = shown
			}
		}
	}
	if !l.isSet(path+".buffer") && !own.MaxMessage.None() {
		l.boundBuffer(own, path)
	}
}

// boundBuffer makes a buffer that nobody has set no larger than a message.
func (l *loader) boundBuffer(lim *Limits, path string) {
	if lim.Buffer <= lim.MaxMessage {
		return
	}
	lim.Buffer = lim.MaxMessage
	if shown, ok := l.hidden[path+".max_message"]; ok {
		l.hidden[path+".buffer"] = shown
	}
}
