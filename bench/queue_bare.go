package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// bareConns is how many connections the senders of bare JetStream share: more
// make it no faster.
const bareConns = 8

// queueBare measures JetStream by itself, with a sync for each message: what one
// would get without the gateway, by calls inside the process.
type queueBare struct {
	lab     *Lab
	o       QueueOptions
	senders int
	srv     *natsserver.Server
	conns   []*nats.Conn
	streams []jetstream.JetStream
}

// NewQueueBare returns the scenario of JetStream alone with so many senders.
func NewQueueBare(lab *Lab, senders int, o QueueOptions) Scenario {
	return &queueBare{lab: lab, o: o.withDefaults(), senders: senders}
}

// Prepare implements [Scenario].
func (s *queueBare) Prepare(ctx context.Context) error {
	dir, err := s.lab.Folder("jetstream")
	if err != nil {
		return err
	}
	s.srv, err = natsserver.NewServer(&natsserver.Options{
		ServerName: "bench", DontListen: true, NoSigs: true, NoLog: true,
		JetStream: true, StoreDir: dir, SyncAlways: true, DisableJetStreamBanner: true,
	})
	if err != nil {
		return err
	}
	s.srv.Start()
	if !s.srv.ReadyForConnections(queuePatience) {
		return errors.New("the NATS server does not start")
	}
	for range min(bareConns, s.senders) {
		nc, err := nats.Connect("", nats.InProcessServer(s.srv), nats.NoReconnect())
		if err != nil {
			return err
		}
		s.conns = append(s.conns, nc)
		js, err := jetstream.New(nc)
		if err != nil {
			return err
		}
		s.streams = append(s.streams, js)
	}
	_, err = s.streams[0].CreateStream(ctx, jetstream.StreamConfig{
		Name: "BENCH", Subjects: []string{"orders"}, Storage: jetstream.FileStorage,
		Discard: jetstream.DiscardOld, MaxBytes: 1 << 30,
	})
	return err
}

// Spec implements [Scenario].
func (s *queueBare) Spec() Spec {
	p := Spec{
		Name: "queue", Combo: fmt.Sprintf("jetstream-%d", s.senders), Label: "JetStream alone, sync_interval always, " + sendersOf(s.senders),
		Loop: LoopClosed, Processes: "one", Unit: "messages/s", Conns: s.senders, Size: s.o.Size,
		Params: map[string]any{"mode": QueueJetStream, "senders": s.senders},
	}
	if l := s.o.Limits; l != nil && l.Sync != nil {
		// It syncs each message by itself, however many wait.
		p.Limit = &Limit{Name: "1 / mean write and sync", Value: 1e6 / l.Sync.Mean}
		p.Limiter = limiterDisk
	}
	return p
}

// Once implements [Scenario].
func (s *queueBare) Once(ctx context.Context, m *Meter) error {
	body := queueEnvelope(s.o.Size)
	m.Callers(s.senders)
	m.Start()
	until := m.Began().Add(s.o.Window)
	var wg sync.WaitGroup
	for i := range s.senders {
		wg.Go(func() {
			js, shard := s.streams[i%len(s.streams)], m.Shard(i)
			defer func() { shard.Span(time.Since(m.Began())) }()
			for time.Now().Before(until) && ctx.Err() == nil {
				began := time.Now()
				if _, err := js.Publish(ctx, "orders", body); err != nil {
					shard.Fail(err, began)
					return
				}
				shard.Done(began)
			}
		})
	}
	wg.Wait()
	m.Stop()
	return ctx.Err()
}

// Close implements [Scenario].
func (s *queueBare) Close() error {
	for _, nc := range s.conns {
		nc.Close()
	}
	if s.srv != nil {
		s.srv.Shutdown()
		s.srv.WaitForShutdown()
	}
	return nil
}

// queueDisk measures the disk's own write and sync of one record.
type queueDisk struct {
	lab  *Lab
	o    QueueOptions
	file *os.File
}

// NewQueueDisk returns the scenario of the disk alone.
func NewQueueDisk(lab *Lab, o QueueOptions) Scenario {
	return &queueDisk{lab: lab, o: o.withDefaults()}
}

// Prepare implements [Scenario].
func (s *queueDisk) Prepare(context.Context) error {
	dir, err := s.lab.Folder("disk")
	if err != nil {
		return err
	}
	s.file, err = os.Create(filepath.Join(dir, "records"))
	return err
}

// Spec implements [Scenario].
func (s *queueDisk) Spec() Spec {
	return Spec{
		Name: "queue", Combo: "disk", Label: "the disk alone: write and sync of one record after the other",
		Loop: LoopClosed, Unit: "syncs/s", Conns: 1, Size: s.o.Size, Limiter: limiterDisk,
	}
}

// Once implements [Scenario].
func (s *queueDisk) Once(ctx context.Context, m *Meter) error {
	body := queueEnvelope(s.o.Size)
	shard := m.Shard(0)
	m.Callers(1)
	m.Start()
	until := m.Began().Add(s.o.Window / 2)
	for time.Now().Before(until) && ctx.Err() == nil {
		began := time.Now()
		if _, err := s.file.Write(body); err != nil {
			return err
		}
		if err := s.file.Sync(); err != nil {
			return err
		}
		shard.Done(began)
	}
	m.Stop()
	return ctx.Err()
}

// Close implements [Scenario].
func (s *queueDisk) Close() error {
	if s.file == nil {
		return nil
	}
	return s.file.Close()
}
