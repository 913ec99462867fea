package bench

import (
	"math"
	"slices"
)

// summarize makes the summary of runs, but for Latency.
func summarize(runs []Run) Summary {
	s := summarizeValues(values(runs))
	var ops int64
	var p PerOp
	var client, server float64
	serverKnown := len(runs) > 0
	for _, r := range runs {
		s.Errors += r.Errors
		ops += r.Ops
		client += r.Client.CPU
		p.add(r.Client)
		if r.Server == nil {
			serverKnown = false
			continue
		}
		server += r.Server.CPU
		p.add(*r.Server)
	}
	if ops == 0 {
		return s
	}
	n := float64(ops)
	p.Reads, p.Writes, p.Switches = p.Reads/n, p.Writes/n, p.Switches/n
	p.ClientCPU = client / n * 1e6
	if serverKnown {
		us := server / n * 1e6
		p.ServerCPU = &us
		if cost := p.ClientCPU + us; cost > 0 {
			p.Ceiling = cpus() * 1e6 / cost
		}
	}
	s.PerOp = &p
	return s
}

func (p *PerOp) add(c Cost) {
	p.Reads += float64(c.Reads)
	p.Writes += float64(c.Writes)
	p.Switches += float64(c.Switches)
}

// summarizeValues summarises the scores of runs.
func summarizeValues(values []float64) (s Summary) {
	n := len(values)
	if n == 0 {
		return s
	}
	sorted := slices.Sorted(slices.Values(values))
	s.Min, s.Max = sorted[0], sorted[n-1]
	s.Median = (sorted[(n-1)/2] + sorted[n/2]) / 2
	for _, v := range values {
		s.Mean += v / float64(n)
	}
	if s.Mean == 0 {
		return s
	}
	s.Spread = (s.Max - s.Min) / math.Abs(s.Mean)
	if n < 2 {
		return s
	}
	var squares float64
	for _, v := range values {
		squares += (v - s.Mean) * (v - s.Mean)
	}
	deviation := math.Sqrt(squares / float64(n-1))
	s.CoV = deviation / math.Abs(s.Mean)
	ci := student95(n-1) * s.CoV / math.Sqrt(float64(n))
	s.CI95 = &ci
	return s
}

// student95 is the quantile 0.975 of Student's t distribution, which bounds the
// two-sided 95 % interval.
func student95(freedom int) float64 {
	table := []float64{
		12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
		2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
		2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
	}
	if freedom <= len(table) {
		return table[freedom-1]
	}
	// The expansion of Fisher and Cornish about the normal quantile, exact to
	// three digits from 30 on.
	const z = 1.959964
	f := float64(freedom)
	return z + (z*z*z+z)/(4*f) + (5*math.Pow(z, 5)+16*z*z*z+3*z)/(96*f*f)
}

// slope is by how much the rate changed from the beginning of a series to its
// end, as a share of its mean, by the line of least squares. ok is false when the
// series is too short or its line is within its own noise.
func slope(series []float64) (change float64, ok bool) {
	n := len(series)
	if n < 4 {
		return 0, false
	}
	var meanX, meanY float64
	for i, y := range series {
		meanX += float64(i) / float64(n)
		meanY += y / float64(n)
	}
	var sxx, sxy float64
	for i, y := range series {
		dx := float64(i) - meanX
		sxx += dx * dx
		sxy += dx * (y - meanY)
	}
	if meanY <= 0 {
		return 0, false
	}
	b := sxy / sxx
	var rest float64
	for i, y := range series {
		e := y - meanY - b*(float64(i)-meanX)
		rest += e * e
	}
	noise := math.Sqrt(rest / float64(n-2) / sxx)
	return b * float64(n) / meanY, math.Abs(b) > 2*noise
}
