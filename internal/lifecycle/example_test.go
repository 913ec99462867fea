package lifecycle_test

import (
	"context"
	"fmt"

	"soapway/internal/lifecycle"
)

// The part given last is the first to be told to stop.
func Example() {
	part := func(name string) lifecycle.Part {
		return lifecycle.Part{Name: name, Run: func(stop, _ context.Context) error {
			<-stop.Done()
			fmt.Println(name, "stopped")
			return nil
		}}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	err := lifecycle.New(lifecycle.Options{}, part("proxy"), part("listeners")).Run(ctx)
	fmt.Println(err)
	// Output:
	// listeners stopped
	// proxy stopped
	// <nil>
}
