package bench

// Limits is what this machine can do at most, measured without the product; a
// figure that could not be measured is 0.
type Limits struct {
	FloorUS     float64    `json:"floor_us"`         // p50 of a round trip of 1 octet over TCP between two processes
	FloorMeanUS float64    `json:"floor_mean_us"`    // its mean
	Stream1500  float64    `json:"stream_1500_mbit"` // loopback TCP with writes of 1,500 octets, Mbit/s
	Stream64K   float64    `json:"stream_64k_mbit"`  // the same with 64 KiB
	MemcpyGBs   float64    `json:"memcpy_gb_s"`
	Sync        *SyncLimit `json:"sync,omitempty"` // nil: not measured
	SyscallNS   float64    `json:"syscall_ns"`     // the cheapest system call
	NowNS       float64    `json:"now_ns"`         // one look at the clock
	SleepOverUS float64    `json:"sleep_over_us"`  // by how much a sleep of 50 µs is too long, mean
	Cores       int        `json:"cores"`
	Files       uint64     `json:"files"` // descriptors that this process may have
	Unmeasured  []string   `json:"unmeasured,omitempty"`
}

// SyncLimit is what a write and a sync of one record cost where the queue keeps
// its messages, in microseconds.
type SyncLimit struct {
	Dir  string  `json:"dir"`
	Mean float64 `json:"mean_us"`
	P50  float64 `json:"p50_us"`
	P99  float64 `json:"p99_us"`
}
