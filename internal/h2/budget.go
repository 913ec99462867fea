package h2

import "time"

const (
	// A client may send mostFrames at once, and framesPerSecond, that carry no
	// message; framesPerRequest more for each request that is served, and one
	// more for each octetsPerFrame that it is sent.
	mostFrames       = 1000
	framesPerSecond  = 100
	framesPerRequest = 5
	octetsPerFrame   = 512
)

// errFlood is why a connection ends whose client keeps it busy with nothing.
var errFlood = &connError{codeCalm, "too many frames for what they carry"}

// budget is what a client may still send of frames that carry no message: each
// costs little, but a client can send a million of them a second.
type budget struct {
	left   int
	at     time.Time // when left was right
	earned int       // frames, since then
	sent   int       // octets, since then
}

// spend takes a frame off the budget.
func (b *budget) spend() error {
	if b.left--; b.left >= 0 {
		return nil
	}
	now := time.Now()
	b.left += int(now.Sub(b.at).Seconds()*framesPerSecond) + b.earned + b.sent/octetsPerFrame
	b.left = min(b.left, mostFrames)
	b.at, b.earned, b.sent = now, 0, 0
	if b.left < 0 {
		return errFlood
	}
	return nil
}
