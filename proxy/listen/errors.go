package listen

import (
	"errors"

	"soapway/internal/h1"
)

// ErrBodyIdle is the reason of a request body whose sender was silent for
// Timeouts.BodyIdle. It wraps os.ErrDeadlineExceeded.
var ErrBodyIdle = h1.ErrIdle

// ErrGone is the cancellation cause of an exchange whose caller has left.
var ErrGone = h1.ErrGone

// ErrShutdown is the cancellation cause of an exchange that was still under way
// at the end of the drain budget.
var ErrShutdown = errors.New("listen: shutting down")
