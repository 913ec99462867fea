package queue

import (
	"bytes"
	"flag"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// A sourceHub is a NATS server of somebody else's, with a JetStream domain of its own and a
// door for leaf nodes, which copies the log of a store by a stream source.
type sourceHub struct {
	t    *testing.T
	dir  string
	port int // of the door; the same after each start
	srv  *server.Server
	nc   *nats.Conn
}

const sourceStream = "PLANT"

var leafOutages = flag.Bool("leaf", false, "all of TestLeafNode, which takes a minute or two")

func newSourceHub(t *testing.T) *sourceHub {
	h := &sourceHub{t: t, dir: t.TempDir(), port: -1}
	h.start()
	t.Cleanup(h.stop)
	return h
}

// source makes the stream that copies, once the leaf node is there: a source that finds none
// waits long before it asks again.
func (h *sourceHub) source() {
	h.t.Helper()
	for end := time.Now().Add(time.Minute); h.srv.NumLeafNodes() == 0; <-time.After(10 * time.Millisecond) {
		if time.Now().After(end) {
			h.t.Fatal("the leaf node does not come")
		}
	}
	js, err := h.nc.JetStream()
	if err != nil {
		h.t.Fatal(err)
	}
	if _, err := js.AddStream(&nats.StreamConfig{Name: sourceStream, Sources: []*nats.StreamSource{{
		Name: streamLog, FilterSubject: subjectLog + ">", External: &nats.ExternalStream{APIPrefix: "$JS.plant.API"},
	}}}); err != nil {
		h.t.Fatal(err)
	}
}

func (h *sourceHub) start() {
	h.t.Helper()
	o := &server.Options{
		ServerName: "hub", Host: "127.0.0.1", Port: -1, NoSigs: true, JetStream: true, JetStreamDomain: "hq", StoreDir: h.dir, MaxPayload: maxPayload,
		LeafNode: server.LeafNodeOpts{Host: "127.0.0.1", Port: h.port},
	}
	srv, err := server.NewServer(o)
	if err != nil {
		h.t.Fatal(err)
	}
	srv.Start()
	if h.srv = srv; !srv.ReadyForConnections(time.Minute) {
		h.t.Fatal("the hub does not start")
	}
	h.port = o.LeafNode.Port // taken when it was bound
	if h.nc, err = nats.Connect(srv.ClientURL()); err != nil {
		h.t.Fatal(err)
	}
}

func (h *sourceHub) stop() {
	h.nc.Close()
	h.srv.Shutdown()
	h.srv.WaitForShutdown()
}

// leaf makes the server of a store a leaf node of the hub, with a domain of its own.
func (h *sourceHub) leaf(o StoreOptions) StoreOptions {
	o.Log = nil // of a hub that is away it tells ten times a second
	o.serve = func(s *server.Options) {
		s.JetStreamDomain = "plant"
		s.LeafNode.ReconnectInterval = 100 * time.Millisecond
		s.LeafNode.Remotes = []*server.RemoteLeafOpts{{
			URLs: []*url.URL{{Scheme: "nats", Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(h.port))}},
		}}
	}
	return o
}

// copied are the records that the hub has, in its order.
func (h *sourceHub) copied() (records [][]byte) {
	h.t.Helper()
	js, err := h.nc.JetStream()
	if err != nil {
		h.t.Fatal(err)
	}
	i, err := js.StreamInfo(sourceStream)
	if err != nil {
		h.t.Fatal(err)
	}
	for seq := i.State.FirstSeq; seq <= i.State.LastSeq && seq > 0; seq++ {
		m, err := js.GetMsg(sourceStream, seq)
		if err != nil {
			h.t.Fatal(err)
		}
		records = append(records, m.Data)
	}
	return records
}

// await waits until the hub has a record with this text.
func (h *sourceHub) await(text string) [][]byte {
	h.t.Helper()
	for end := time.Now().Add(5 * time.Minute); ; {
		r := h.copied()
		if len(r) > 0 && bytes.Contains(r[len(r)-1], []byte(text)) {
			return r
		}
		if time.Now().After(end) {
			h.t.Fatalf("the hub has %d records and not %q", len(r), text)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// has counts the records with each of the texts.
func has(records [][]byte, texts []string) (n int) {
	for _, text := range texts {
		for _, r := range records {
			if bytes.Contains(r, []byte(text)) {
				n++
			}
		}
	}
	return n
}

// TestLeafNode is what docs/sites.md says of the other way, "NATS leaf nodes": the log of a
// store is copied by a stream source over a leaf node, which no configuration of the
// gateway does. The copy is whole as long as nothing is delivered, and nothing is rolled
// back; it has records and no messages; and the store knows nothing of it.
func TestLeafNode(t *testing.T) {
	h := newSourceHub(t)
	dir := t.TempDir()
	s := openStore(t, h.leaf(testOptions(t, dir)))
	h.source()
	puts := func(what string, n int) (texts []string, seqs []uint64) {
		t.Helper()
		for i := range n {
			text := fmt.Sprintf("<%s n='%d'/>", what, i)
			m := message(i)
			m.ID, m.Body, m.Destination = fmt.Sprintf("id-%s-%03d", what, i), []byte(text), "depot"
			texts, seqs = append(texts, text), append(seqs, put(t, s, m))
		}
		return texts, seqs
	}

	// What waits is copied in the order of the log. The store is not told: nothing of it is
	// done.
	first, seqs := puts("first", 30)
	r := h.await(first[29])
	if i, err := s.js.info(streamLog); err != nil || i.State.Messages != uint64(len(first)) {
		t.Errorf("the log has %+v (%v), want all %d messages: a copy takes nothing away", i.State, err, len(first))
	}
	// A record is no message: what it has besides the body is the store's own.
	if bytes.Equal(r[0], []byte(first[0])) {
		t.Error("a record is the body alone")
	}

	if !*leafOutages {
		t.Log("a source waits 10 s and more before it asks again: -leaf asks for what happens while a hub is away, and after a restore")
		return
	}
	// The hub is away. What is delivered meanwhile never comes, and nobody is told; what
	// waits does, behind what came before.
	h.stop()
	gone, more := puts("gone", 10)
	if err := s.Remove(append(seqs, more...)...); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; <-time.After(20 * time.Millisecond) {
		if i, err := s.js.info(streamLog); err != nil || time.Now().After(end) {
			t.Fatalf("the log is not trimmed: %+v, %v", i, err)
		} else if i.State.Messages == 0 {
			break
		}
	}
	second, _ := puts("second", 30)
	h.start()
	r = h.await(second[29])
	all := append(first, second...)
	if len(r) != len(all) || has(r, gone) != 0 {
		t.Errorf("the hub has %d records, %d of them of messages that were delivered while it was away; want %d and none", len(r), has(r, gone), len(all))
	}
	for i, text := range all {
		if i < len(r) && !bytes.Contains(r[i], []byte(text)) {
			t.Errorf("record %d is not that of %s", i, text)
		}
	}

	// After the store has come back from an earlier state, by a restore or, as the copy is
	// made before a record is on the disk, by a power cut, its numbers come again. What
	// has them is passed over.
	before := copyStore(t, dir)
	lost, _ := puts("lost", 20)
	h.await(lost[19])
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, h.leaf(testOptions(t, before)))
	again, _ := puts("again", 10)
	later, _ := puts("later", 40)
	r = h.await(later[39])
	if n := has(r, again); n != 0 {
		t.Errorf("of %d messages whose numbers came again the hub has %d, and docs/sites.md says none", len(again), n)
	}
	if n := has(r, lost); n != len(lost) {
		t.Errorf("the hub has %d of %d messages that the store has no more", n, len(lost))
	}
}

// TestLeafNodeSealed: of a store that is encrypted the hub gets what it cannot read.
func TestLeafNodeSealed(t *testing.T) {
	h := newSourceHub(t)
	s := openStore(t, h.leaf(sealedOptions(t, t.TempDir(), testKeyA)))
	h.source()
	m := message(1)
	m.Body = []byte("<secret/>")
	put(t, s, m)
	for end := time.Now().Add(time.Minute); len(h.copied()) == 0; <-time.After(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the hub gets nothing")
		}
	}
	if r := h.copied(); bytes.Contains(r[0], m.Body) {
		t.Errorf("the hub has %q in clear", r[0])
	}
}
