package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// The streams of a store. The log's number leaves room for more of them.
const (
	streamLog   = "GW_IN_00"
	streamDead  = "GW_DEAD"
	streamState = "GW_STATE"
	streamReply = "GW_ANSWER"
	streamDone  = "GW_DONE"

	subjectLog     = "gw.in.00." // and what logSubject makes of the destination
	subjectDead    = "gw.dead."
	subjectAttempt = "gw.att."
	subjectState   = "gw.st."
	subjectMark    = "gw.mark"  // how far the log is removed, and how far it is durable
	subjectGone    = "gw.gone." // what is removed above that, per chunk
	subjectKnown   = "gw.ids."  // what is known of messages that are gone, per hour
	subjectReply   = "gw.rep."  // replies, by the hour in which they expire and the message
	subjectDone    = "gw.done." // messages that were delivered
	// subjectReplyHour has one for each hour that has replies.
	subjectReplyHour = "gw.rephour."
	subjectAwait     = "gw.await." // what other sites are to answer
)

const (
	startTimeout   = 10 * time.Minute // of the server: it recovers its streams first
	requestTimeout = 30 * time.Second // of one request to it
)

// Codes of the JetStream API that a store tells apart.
const (
	codeNotFound    = 10059 // no such stream
	codeStoreFailed = 10077 // storing failed; the text has the reason
	codeTooLarge    = 10054
)

// apiError is the error of an answer of the JetStream API.
type apiError struct {
	Code        int    `json:"err_code"`
	Status      int    `json:"code"`
	Description string `json:"description"`
}

func (e *apiError) Error() string { return fmt.Sprintf("jetstream: %s (%d)", e.Description, e.Code) }

// js is the embedded server and two connections to it: one for appends, so
// that their acknowledgements never stand behind what a scan reads.
type js struct {
	srv     *server.Server
	pub     *nats.Conn
	api     *nats.Conn
	ackCh   chan ack
	replies []string // reply subject of each slot of a group

	keys atomic.Pointer[Keys] // for what is read
	disk diskErrors
	// footing is asked before messages of a stream are removed by subject or
	// number, see Embedded.footing; nil is not.
	footing func(stream string) error
}

// never is longer than any process runs.
const never = 100 * 365 * 24 * time.Hour

// startServer starts JetStream in o.StoreDir. broken is told of what the server or
// its connections can not mend.
func startServer(o *server.Options, keys *Keys, log *slog.Logger, broken func(error)) (_ *js, err error) {
	o.DontListen, o.NoSigs, o.JetStream, o.DisableJetStreamBanner = true, true, true, true
	o.JetStreamMaxMemory = 64 << 20 // consumers of scans
	o.MaxPayload = maxPayload
	// Both ends of its connections are in this process. That one is slow says only
	// that the process stood still, by SIGSTOP or a machine that was suspended, and a
	// connection that is given up for it would close the store until a restart.
	o.WriteDeadline, o.PingInterval, o.AuthTimeout = never, never, startTimeout.Seconds()
	srv, err := server.NewServer(o)
	if err != nil {
		return nil, fmt.Errorf("queue: embedded server: %w", err)
	}
	j := &js{srv: srv}
	j.keys.Store(keys)
	srv.SetLoggerV2(&serverLog{log: log, fatal: broken, disk: &j.disk}, false, false, false)
	srv.Start()
	defer func() {
		if err != nil {
			j.stop()
		}
	}()
	if !srv.ReadyForConnections(startTimeout) || !srv.JetStreamEnabled() {
		return nil, errors.New("queue: embedded server does not start")
	}
	connect := func(role string, failed func(error)) (*nats.Conn, error) {
		return nats.Connect("", nats.InProcessServer(srv), nats.Name(role), nats.PingInterval(never), nats.Timeout(startTimeout),
			nats.NoReconnect(), nats.ReconnectBufSize(-1), nats.NoCallbacksAfterClientClose(),
			nats.ClosedHandler(func(c *nats.Conn) {
				if e := c.LastError(); e != nil {
					broken(fmt.Errorf("connection to the embedded server: %w", e))
				} else {
					broken(errors.New("connection to the embedded server is lost"))
				}
			}),
			nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, e error) { failed(fmt.Errorf("embedded server: %w", e)) }))
	}
	if j.pub, err = connect("committer", broken); err != nil {
		return nil, err
	}
	if j.api, err = connect("reader", func(e error) { log.Error("reading from the store", "err", e) }); err != nil {
		return nil, err
	}
	// A group has at most groupCount appends under way, so this channel never fills up.
	j.ackCh = make(chan ack, 2*groupCount)
	inbox := nats.NewInbox()
	j.replies = make([]string, groupCount)
	for i := range j.replies {
		j.replies[i] = inbox + "." + strconv.Itoa(i)
	}
	prefix := len(inbox) + 1
	if _, err = j.pub.Subscribe(inbox+".*", func(m *nats.Msg) {
		slot, err := strconv.Atoi(m.Subject[prefix:])
		if err != nil {
			slot = -1
		}
		a := parseAck(m)
		a.slot = slot
		j.ackCh <- a
	}); err != nil {
		return nil, err
	}
	return j, j.pub.Flush()
}

// parseAck reads a publish acknowledgement. Only a refusal that says so by its
// code and text is definite.
func parseAck(m *nats.Msg) ack {
	if m.Header.Get("Status") != "" {
		return ack{err: fmt.Errorf("append: status %s", m.Header.Get("Status"))}
	}
	var v struct {
		Seq   uint64    `json:"seq"`
		Error *apiError `json:"error"`
	}
	if seq, ok := quickSeq(m.Data); ok {
		return ack{seq: seq}
	}
	if err := json.Unmarshal(m.Data, &v); err != nil {
		return ack{err: fmt.Errorf("append: acknowledgement: %w", err)}
	}
	switch e := v.Error; {
	case e == nil && v.Seq > 0:
		return ack{seq: v.Seq}
	case e == nil:
		return ack{err: errors.New("append: acknowledgement without a sequence")}
	case e.Code == codeStoreFailed && (e.Description == server.ErrMaxBytes.Error() || e.Description == server.ErrMaxMsgs.Error()):
		return ack{err: fmt.Errorf("%w: %s", ErrFull, e.Description)}
	case e.Code == codeTooLarge:
		return ack{err: fmt.Errorf("%w: %s", ErrTooLarge, e.Description)}
	default:
		return ack{err: e}
	}
}

// quickSeq reads {"stream":"NAME", "seq":N} as the server writes it; anything
// else goes through the JSON decoder.
func quickSeq(b []byte) (uint64, bool) {
	const key = `"seq":`
	if len(b) < 2 || b[len(b)-1] != '}' {
		return 0, false
	}
	s := string(b[:len(b)-1])
	i := strings.LastIndex(s, key)
	if i < 0 || strings.Contains(s, `"error"`) {
		return 0, false
	}
	n, err := strconv.ParseUint(s[i+len(key):], 10, 64)
	return n, err == nil && n > 0
}

func (j *js) append(slot int, r record) error {
	m := &nats.Msg{Subject: r.subject, Reply: j.replies[slot], Data: r.data}
	if r.name != "" {
		m.Header = nats.Header{r.name: []string{r.header}}
	}
	return j.pub.PublishMsg(m)
}

func (j *js) acks() <-chan ack { return j.ackCh }

func (j *js) healthy() error {
	if st := j.srv.Healthz(&server.HealthzOptions{}); st.StatusCode >= 400 {
		return fmt.Errorf("embedded server: %s", st.Error)
	}
	return nil
}

// request asks once more when no answer came in time: a process that was frozen
// for so long, as on a paused machine, wakes up to a deadline that is over
// though nobody was slow. Each request of ours may be made twice.
func (j *js) request(subject string, body []byte) (*nats.Msg, error) {
	m, err := j.api.Request(subject, body, requestTimeout)
	if errors.Is(err, nats.ErrTimeout) {
		m, err = j.api.Request(subject, body, requestTimeout)
	}
	return m, err
}

// call makes one request of the JetStream API and reads the answer into out.
func (j *js) call(api string, in, out any) error {
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return err
		}
	}
	m, err := j.request("$JS.API."+api, body)
	if err != nil {
		return fmt.Errorf("jetstream: %s: %w", api, err)
	}
	return decodeAnswer(m.Data, out)
}

func decodeAnswer(b []byte, out any) error {
	var e struct {
		Error *apiError `json:"error"`
	}
	if err := json.Unmarshal(b, &e); err != nil {
		return err
	}
	if e.Error != nil {
		return e.Error
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(b, out)
}

// streamInfo is what a store asks of a stream's state.
type streamInfo struct {
	Config server.StreamConfig `json:"config"`
	State  struct {
		Messages uint64 `json:"messages"`
		Bytes    uint64 `json:"bytes"`
		First    uint64 `json:"first_seq"`
		Last     uint64 `json:"last_seq"`
		// Lost are numbers that the server knows to have had.
		Lost *struct {
			Msgs []uint64 `json:"msgs"`
		} `json:"lost"`
	} `json:"state"`
}

func (j *js) info(stream string) (*streamInfo, error) {
	var i streamInfo
	if err := j.call("STREAM.INFO."+stream, nil, &i); err != nil {
		return nil, err
	}
	return &i, nil
}

// There is no limit of one message for each subject, although of most subjects
// only the last one counts: the server writes nothing down when such a limit
// removes a message, so an old value came back in a crash test once the new one
// had been deleted. The store deletes what it replaced, and that is written.

// openStream makes the stream, or takes the one that is there. With must, a
// missing stream is an error: making it anew would hide a loss.
func (j *js) openStream(cfg server.StreamConfig, must bool) (*streamInfo, error) {
	cfg.Storage, cfg.Retention, cfg.Discard = server.FileStorage, server.LimitsPolicy, server.DiscardNew
	if cfg.MaxAge > 0 { // what goes by its age may as well go for room
		cfg.Discard = server.DiscardOld
	}
	cfg.Replicas, cfg.AllowDirect = 1, true
	cfg.MaxMsgs, cfg.MaxConsumers, cfg.MaxMsgSize, cfg.MaxMsgsPer = -1, -1, -1, -1
	// No header of ours asks for duplicate detection; its window in memory is
	// kept as small as the server allows.
	cfg.Duplicates = 100 * time.Millisecond
	i, err := j.info(cfg.Name)
	var e *apiError
	switch {
	case errors.As(err, &e) && e.Code == codeNotFound && must:
		return nil, fmt.Errorf("queue: stream %s was in this store and can not be opened: its files are missing, or can not be read; nothing was changed (restore a backup)", cfg.Name)
	case errors.As(err, &e) && e.Code == codeNotFound:
		err = j.call("STREAM.CREATE."+cfg.Name, cfg, nil)
	case err == nil && (i.Config.MaxBytes != cfg.MaxBytes || i.Config.MaxAge != cfg.MaxAge || !slices.Equal(i.Config.Subjects, cfg.Subjects)):
		i.Config.MaxBytes, i.Config.MaxAge, i.Config.Subjects = cfg.MaxBytes, cfg.MaxAge, cfg.Subjects
		err = j.call("STREAM.UPDATE."+cfg.Name, i.Config, nil)
	case err == nil:
		return i, nil
	}
	if err != nil {
		return nil, fmt.Errorf("queue: stream %s: %w", cfg.Name, err)
	}
	return j.info(cfg.Name)
}

// get reads one message of a stream by its sequence number or, for a subject,
// its last one. ErrNotFound also stands for a message the server can not read.
func (j *js) get(stream string, seq uint64, subject string) (*nats.Msg, error) {
	var req string
	if subject != "" {
		req = `{"last_by_subj":"` + subject + `"}`
	} else {
		req = `{"seq":` + strconv.FormatUint(seq, 10) + `}`
	}
	m, err := j.request("$JS.API.DIRECT.GET."+stream, []byte(req))
	if err != nil {
		return nil, fmt.Errorf("jetstream: read %s: %w", stream, err)
	}
	switch st := m.Header.Get("Status"); st {
	case "":
		_, err := j.keys.Load().openRecord(m.Header.Get("Nats-Subject"), m, true)
		return m, err
	case "404":
		return nil, ErrNotFound
	default:
		return nil, fmt.Errorf("jetstream: read %s: status %s %s", stream, st, m.Header.Get("Description"))
	}
}

// purge removes what is below seq.
func (j *js) purge(stream string, seq uint64) error {
	return j.purgeBy(stream, server.JSApiStreamPurgeRequest{Sequence: seq})
}

func (j *js) purgeBy(stream string, by server.JSApiStreamPurgeRequest) error {
	if j.footing != nil {
		if err := j.footing(stream); err != nil {
			return fmt.Errorf("remove from %s: %w", stream, err)
		}
	}
	return j.call("STREAM.PURGE."+stream, by, nil)
}

// cut removes what a subject has below seq.
func (j *js) cut(stream, subject string, seq uint64) error {
	return j.purgeBy(stream, server.JSApiStreamPurgeRequest{Subject: subject, Sequence: seq})
}

// forget removes everything of a subject but the latest keep messages.
func (j *js) forget(stream, subject string, keep uint64) error {
	return j.purgeBy(stream, server.JSApiStreamPurgeRequest{Subject: subject, Keep: keep})
}

// deleteWindow is how many single deletes are under way at once: the server
// handles them one after the other, the window hides the way there and back
// (BenchmarkTrim: 0.7x of the time at 1; 1024 gains hardly more).
const deleteWindow = 256

// remove deletes single messages; that one is not there is no error.
func (j *js) remove(stream string, seqs []uint64) error {
	inbox := nats.NewInbox()
	sub, err := j.api.SubscribeSync(inbox)
	if err != nil {
		return err
	}
	defer func() { _ = sub.Unsubscribe() }()
	open := 0
	wait := func() error {
		m, err := sub.NextMsg(requestTimeout)
		if errors.Is(err, nats.ErrTimeout) { // as in request
			m, err = sub.NextMsg(requestTimeout)
		}
		if err != nil {
			return fmt.Errorf("jetstream: delete: %w", err)
		}
		open--
		if err := decodeAnswer(m.Data, nil); err != nil {
			var e *apiError
			if errors.As(err, &e) && e.Status >= 400 && e.Status < 500 {
				return nil
			}
			if e != nil && (e.Description == server.ErrStoreMsgNotFound.Error() || e.Description == "deleted message") {
				return nil
			}
			return err
		}
		return nil
	}
	subject := "$JS.API.STREAM.MSG.DELETE." + stream
	for _, seq := range seqs {
		if err := j.api.PublishRequest(subject, inbox, []byte(`{"no_erase":true,"seq":`+strconv.FormatUint(seq, 10)+`}`)); err != nil {
			return err
		}
		for open++; open >= deleteWindow; {
			if err := wait(); err != nil {
				return err
			}
		}
	}
	for open > 0 {
		if err := wait(); err != nil {
			return err
		}
	}
	return nil
}

// stop ends connections and server and waits for its goroutines.
func (j *js) stop() {
	for _, c := range []*nats.Conn{j.pub, j.api} {
		if c != nil {
			c.Close()
		}
	}
	j.srv.Shutdown()
	j.srv.WaitForShutdown()
}

// serverLog passes what the embedded server says to slog.
type serverLog struct {
	log   *slog.Logger
	fatal func(error)
	disk  *diskErrors // may be nil
}

var _ server.Logger = (*serverLog)(nil)

func (l *serverLog) say(level slog.Level, format string, v []any) {
	if l.log.Enabled(context.Background(), level) {
		l.log.Log(context.Background(), level, fmt.Sprintf(format, v...), "part", "jetstream")
	}
}

// Noticef is of interest only when looking for a fault: start and stop are
// reported by the store itself.
func (l *serverLog) Noticef(format string, v ...any) { l.say(slog.LevelDebug, format, v) }
func (l *serverLog) Debugf(format string, v ...any)  { l.say(slog.LevelDebug, format, v) }
func (l *serverLog) Tracef(format string, v ...any)  { l.say(slog.LevelDebug, format, v) }
func (l *serverLog) Warnf(format string, v ...any)   { l.say(slog.LevelWarn, format, v) }

// Errorf tells an error of the disk by its reason, before anybody meets it as
// text, or as a mere refusal.
func (l *serverLog) Errorf(format string, v ...any) {
	for _, a := range v {
		if err, ok := a.(error); ok && l.disk != nil {
			l.disk.heard(err)
		}
	}
	l.say(slog.LevelError, format, v)
}

// Fatalf must not end the process: the queue fails, the rest of the gateway goes on.
func (l *serverLog) Fatalf(format string, v ...any) {
	l.say(slog.LevelError, format, v)
	l.fatal(fmt.Errorf("embedded server: "+format, v...))
}
