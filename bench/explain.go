package bench

import (
	"maps"
	"slices"
	"strings"
)

// Explain says in plain words what a test does, how to read it, and what it does
// not say; ok is false if there is no such test. A combination behind a point is
// taken off: ping.ff is explained by ping.
func Explain(test string) (text string, ok bool) {
	name, _, _ := strings.Cut(test, ".")
	text, ok = explanations[name]
	return strings.TrimSpace(text) + "\n", ok
}

// Explained are the names of all tests that [Explain] knows.
func Explained() []string { return slices.Sorted(maps.Keys(explanations)) }

// explanations are texts for people; lines are at most 80 characters long.
var explanations = map[string]string{
	"limits": `
limits: what this machine can do at most.

It takes a few seconds and measures without the gateway: the round trip of one
octet over TCP between two processes, a stream over the loopback, copying
memory, writing and syncing one record in the folder of the store, the
cheapest system call, one look at the clock, and by how much a short sleep is
too long.

How to read it: every other row says how near it comes to one of these. A row
at 90 % of its limit cannot get much faster on this machine. A row at 10 % can.

What it does not say: anything about another machine.
`,
	"startup": `
startup: how long it takes until the gateway serves.

Twenty times the real program is started in an empty folder. The clock runs
from the start of the process to the first right answer to a SOAP message. Then
the program is told to stop, and that time is taken too.

How to read it: min, mean and max as in the founding text. "Cold" means a new
process; the files of the program are in the memory of the system already.
The row is judged by how well its mean is known, since single starts differ.

What it does not say: how long a gateway with a full store takes. Ask for that
with --queue 100000.
`,
	"web": `
web: how fast small web pages come through.

One caller gets a page of about 1 KiB over one connection, waits for it, and
gets it again. There is no SOAP in it: the row shows what HTTP alone costs.

How to read it: pages a second, higher is better. One caller can never use a
second processor, so this is about time, not about capacity.

What it does not say: what many callers get. See threads.
`,
	"ping": `
ping: how many SOAP messages a second one caller gets through.

A small SOAP message with a number goes out, the reply must bring the number
back, and only then the next goes out. It is done for each pair of sender and
receiver:

  hh   the gateway's own HTTP client to its HTTP listener
  hr   the gateway's HTTP client to a bare HTTP listener
  rh   a bare HTTP client to the gateway's HTTP listener
  rr   a bare HTTP client to a bare HTTP listener: nobody checks anything
  ff   a framed client to the gateway's framed listener
  nn   the client and server of Go's own library, for comparison

Client and server are two processes.

How to read it: compare hh with rr to see what the checks cost, and ff with hh
to see what HTTP costs. With --via both the "gateway tax" is the time that
going through a gateway adds to going straight to the backend.

What it does not say: the times are those of a service with one caller, not
what a user in a crowd sees. See threads.
`,
	"threads": `
threads: how many callers that send one message a second are served in time.

Each caller has its own connection and sends one message each second, at its
own moment. If a reply is late, the next message is late too, and its time
counts from when it should have gone: a user would have waited so long.

With --find-max the number of callers doubles until they are not served well
any more, then the gap is halved until it is small, and the answer is confirmed
for half a minute. Served well means: 99 % of the messages were sent, at most
one in a thousand failed, 99 % had their reply within 250 ms, and replies did
not get slower and slower.

How to read it: the number is the load that this machine can bear for hours.
The limiter says what would have to grow.

What it does not say: what happens above it. The first number that failed, and
why, stands beside it.
`,
	"net": `
net: what a network carries between two machines.

One machine runs "gateway bench net server", the other "gateway bench net
client". Buffers of a size go over the network in a pass that lasts at least a
tenth of a second; ten passes are measured.

  raw      a stream of buffers over TCP: what the network itself can do
  http     one POST for each buffer, which waits for its answer
  rpc      one NATS request for each buffer (rmi in the founding text)
  soap     one POST of a SOAP message, which the other end checks
  framed   one framed SOAP message, which the other end checks

Each pass prints a sign: "+" was too short, so the next has ten times the
buffers; "." counts. The first pass of all is cold and stands apart.

How to read it: raw near the speed of the line means that the network is fine.
http far below raw means that the time of a round trip is what you pay for:
send larger messages, or more at once.

What it does not say: with both ends on one machine it measures the loopback,
which is no network.
`,
	"calls": `
calls: what a call costs inside one process, and between two.

In process three callers work at the same time: one looks up the route of a
message among 1,000, one calls the gateway's handler directly, one writes a
message, sends it through memory, and reads the reply. Then two callers do the
same with another process: a look-up and a call over TCP. Each does 10,000
operations in a row, ten times.

How to read it: microseconds for each operation, lower is better. The gap
between local and remote is the price of going elsewhere. Beside each row stands
the memory of the process that answers.

What it does not say: all callers share the processors, so each is slower than
it would be alone. That is on purpose.
`,
	"queue": `
queue: how fast messages are accepted for good, and what becomes of them.

Senders post messages to a route that stores them. "Accepted" means that the
gateway has answered 202, in mode strict only after the message was on disk.
"Delivered" means that the backend has it. The rows are for 1, 64 and 512
senders, in both modes, beside a bare JetStream that syncs every message and
beside the disk's own write and sync.

Then the backend goes down, 10,000 messages are accepted meanwhile, and the
time is taken until all of them are delivered after it has come back.

With --drill the backend goes down, connections are cut in the middle of
answers, the gateway is killed and started again. In the end every message
that was accepted must have been delivered.

How to read it: "relaxed" rows are not safe against a loss of power and say so.
In the drill "lost" must be 0; "duplicated" are messages that came again with
the mark for it, which at-least-once delivery has after a crash; "reordered"
must be 0.

What it does not say: how fast your backend is. The one used here answers at
once.
`,
	"mem": `
mem: how much memory the gateway takes.

Resident memory when idle, its peak, its share counted fairly where pages are
shared, the heap, goroutines and open files, and what one idle connection
costs, by the difference of a thousand of them. Then after a load, and after
garbage was collected and what is free given back to the system. The rows of all
other tests have the memory after their last run beside them.

How to read it: resident memory (RSS) is what the machine really gives. The
virtual size is much larger, since Go only reserves addresses, and means
nothing.

What it does not say: what large messages take while they pass through; that
is bounded by limits.buffer for each of them.
`,
	"all": `
all: every test, one after the other, on a gateway of its own in a folder of
its own. Nothing of a gateway in use is touched.

--quick takes less than 150 seconds and finds orders of magnitude; --full, the
default, takes ten to fifteen minutes and is what to keep for a comparison. What
it will take is told at the start. At the end every measure of the founding
documents stands beside what they printed.
`,
	"compare": `
compare: whether two results differ by more than chance.

The runs of each row are compared by their ranks (Mann-Whitney U test), which
assumes nothing about them. "~" means: could well be chance. A regression is a
difference that is not chance, to the bad, and larger than --tolerance. Each
side needs four runs or more. Results of different machines are refused, since
their difference says nothing about the gateway.

--ab OLDBIN runs an older program and this one by turns, so that both meet the
same machine: better than two results from two days.
`,
}
