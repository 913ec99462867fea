package config

import (
	"io/fs"
	"strings"
)

// meta is what a Config knows about where it came from.
type meta struct {
	path    string
	files   []string
	places  map[string]place       // of every key that was set, by dotted path
	hidden  map[string]string      // how values were written that must not be shown, see hidden.go
	renamed map[string]string      // paths that have such a value -> what they are shown as
	items   map[string][]string    // path of a list -> paths of its items
	inline  map[string]*Backend    // of routes with their own nodes, by route
	replies map[NodeURL]*Backend   // of the places that answers may be sent to
	vars    func() []Variable      // large, and rarely asked for
	seen    map[string]fs.FileInfo // state of files when they were read, for Watch
}

// A place is where a value was written.
type place struct {
	source    string // file name, or "environment", or "option"
	name      string // of the variable or option; "" in the file
	line, col int    // 1-based; 0 outside the file
}

// Path returns the path of the file that c was loaded from.
func (c *Config) Path() string { return c.meta.path }

// Files returns the files and folders whose change means that c should be
// loaded again: the configuration file, secrets, certificates, and others that
// keys name. Sorted, without repetition.
func (c *Config) Files() []string { return c.meta.files }

// Variables lists the environment variable of every key of c: one for each
// scalar, list items by their name and map entries by their key. Sorted by
// name.
func (c *Config) Variables() []Variable { return c.meta.vars() }

// A Variable is the environment variable of one key.
type Variable struct {
	// Name is GATEWAY_ and the path in upper case, such as
	// GATEWAY_ROUTES_ORDERS_DELIVERY.
	Name string
	// Key is the path, such as routes.orders.delivery.
	Key string
}

// BackendOf returns the backend of a route of c and its name: that of
// [Route.Backend], or for a route with its own nodes one with those nodes, the
// defaults, and the name of the route.
func (c *Config) BackendOf(r *Route) (string, *Backend) {
	if r.Backend != "" {
		return r.Backend, c.Backends[r.Backend]
	}
	return r.Name, c.meta.inline[r.Name]
}

// Problem makes a problem at the place of a key, for what only shows when the
// configuration is used, such as an address that is taken. The key is a path
// such as listeners.http-1.address.
func (c *Config) Problem(key, message, hint string) Problem {
	return c.meta.problem(key, message, hint)
}

func (m *meta) problem(key, message, hint string) Problem {
	p := Problem{File: m.path, Key: shownKey(m.renamed, key), Message: message, Hint: hint}
	p.at(nearestPlace(m.places, key))
	return p
}

// Stores reports whether messages of the route may be stored.
func (r *Route) Stores() bool {
	return r.Delivery == DeliveryQueue || r.Delivery == DeliverySyncThenQueue
}

// itemPath is the path of an item of a list.
func (m *meta) itemPath(list string, i int) string {
	if paths := m.items[list]; i < len(paths) {
		return paths[i]
	}
	return indexed(list, i)
}

// nearestPlace returns where a key was written, or else the nearest key above
// it that was.
func nearestPlace(places map[string]place, key string) place {
	for {
		if at, ok := places[key]; ok {
			return at
		}
		i := strings.LastIndexAny(key, ".[")
		if i < 0 {
			return place{}
		}
		key = key[:i]
	}
}
