package config_test

import (
	"errors"
	"fmt"

	"soapway/config"
)

func ExampleLoadBytes() {
	cfg, err := config.LoadBytes("gateway.yaml", []byte(`
listeners: [{address: "0.0.0.0:8080"}]
routes:
  - name: orders
    match: {path: /orders}
    to: ["http://10.0.0.5:9000/orders", "http://10.0.0.6:9000/orders"]
`), config.Options{Env: []string{"GATEWAY_ROUTES_ORDERS_TIMEOUT=1m30s"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for i := range cfg.Routes {
		name, backend := cfg.BackendOf(&cfg.Routes[i])
		fmt.Println(cfg.Routes[i].Match.Path, "to", name, backend.Timeout)
		for _, node := range backend.Nodes {
			fmt.Println("-", node.URL)
		}
	}
	// Output:
	// /orders to orders 1m30s
	// - http://10.0.0.5:9000/orders
	// - http://10.0.0.6:9000/orders
}

// Every problem comes at once, with its place and what to do.
func ExampleProblems() {
	_, err := config.LoadBytes("gateway.yaml", []byte(`listeners:
  - adress: "0.0.0.0:8080"
routes:
  - name: orders
    match: {path: orders}
    to: ["htp://10.0.0.5/orders"]
    assurance: once
`), config.Options{})
	if problems, ok := errors.AsType[config.Problems](err); ok {
		for _, p := range problems {
			fmt.Println(p)
		}
	}
	// Output:
	// gateway.yaml:2:5: listeners.http-1.adress: unknown key (did you mean address?)
	// gateway.yaml:5:19: routes.orders.match.path: a path begins with a slash (did you mean /orders?)
	// gateway.yaml:6:10: routes.orders.to[0]: "htp" is not a kind of node (did you mean http://? a node is http://, https://, framed:// or framed+tls:// with host and port, or builtin:echo)
	// gateway.yaml:7:16: routes.orders.assurance: "once" is not a value of this key (write at-least-once or at-most-once)
}

func ExampleSecret() {
	token := config.NewSecret("hunter2")
	fmt.Println(token, len(token.Reveal()))
	// Output: [redacted] 7
}
