package login

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/scram"
)

// Messages of a server.
var (
	ok      = string(wire.AppendAuthentication(nil, wire.AuthOK, nil))
	clear   = string(wire.AppendAuthentication(nil, wire.AuthCleartext, nil))
	sasl    = string(wire.AppendAuthSASL(nil, scram.Mechanism))
	key     = string(wire.AppendBackendKeyData(nil, 7, []byte("abcd")))
	ready   = string(wire.AppendReadyForQuery(nil, wire.Idle))
	version = string(wire.AppendParameterStatus(nil, "server_version", "18.6"))
	notice  = string(wire.AppendNotice(nil, &wire.Error{Severity: "WARNING", Code: "01000", Message: "m"}))
)

// scripted logs in to a server that has said all it will say already.
func scripted(t *testing.T, tg Target, says string) (*Server, error) {
	t.Helper()
	ours, peer := net.Pipe()
	defer func() { _ = ours.Close() }()
	said := background(func() error {
		defer func() { _ = peer.Close() }()
		if _, err := wire.ReadStartup(peer); err != nil {
			return err
		}
		go func() { _, _ = io.Copy(io.Discard, peer) }() // the client's answers; ends with the connection
		_, err := peer.Write([]byte(says))
		return err
	})
	s, err := Login(deadline(t), ours, tg)
	_ = ours.Close()
	if err := said(); err != nil && !errors.Is(err, io.ErrClosedPipe) {
		t.Error(err)
	}
	return s, err
}

func TestLogin(t *testing.T) {
	says := notice + ok + version + string(wire.AppendParameterStatus(nil, "TimeZone", "UTC")) + key + notice +
		string(wire.AppendParameterStatus(nil, "TimeZone", "Europe/Zurich")) + ready
	s, err := scripted(t, Target{User: "u", Database: "d"}, says)
	if err != nil {
		t.Fatal(err)
	}
	s.Conn = nil
	want := &Server{
		PID: 7, Secret: []byte("abcd"), Version: "18.6",
		Status: []wire.Param{{Name: "server_version", Value: "18.6"}, {Name: "TimeZone", Value: "Europe/Zurich"}},
	}
	if d := cmp.Diff(want, s); d != "" {
		t.Error(d)
	}
	if s, err := scripted(t, Target{User: "u", Database: "d"}, ok+ready); err != nil || s.PID != 0 || s.Secret != nil {
		t.Errorf("without a key: %+v, %v", s, err)
	}
}

func TestStartupPacketOfALogin(t *testing.T) {
	ours, peer := pipe(t)
	tg := Target{User: "u", Database: "d", Params: []wire.Param{{Name: "b", Value: "1"}, {Name: "a", Value: ""}}}
	login := background(func() error { _, err := Login(deadline(t), ours, tg); return err })
	p, err := wire.ReadStartup(peer)
	if err != nil {
		t.Fatal(err)
	}
	want := &wire.Startup{Major: 3, Params: []wire.Param{
		{Name: "user", Value: "u"}, {Name: "database", Value: "d"}, {Name: "b", Value: "1"}, {Name: "a", Value: ""},
	}}
	if d := cmp.Diff(want, p); d != "" {
		t.Error(d)
	}
	_ = peer.Close()
	if err := login(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
	for _, p := range []wire.Param{{Name: "user", Value: "postgres"}, {Name: "database", Value: "x"}, {Name: "_pq_.x", Value: "1"}, {Name: "a", Value: "x\x00user\x00postgres"}} {
		if _, err := Login(deadline(t), ours, Target{User: "u", Database: "d", Params: []wire.Param{p}}); err == nil {
			t.Errorf("%q was sent", p.Name)
		}
	}
}

func TestErrorsOfAServer(t *testing.T) {
	full := &wire.Error{Severity: "FATAL", Code: "53300", Message: "sorry", Detail: "d", Hint: "h"}
	for name, tc := range map[string]struct {
		says string
		want *wire.Error
	}{
		"at once":              {string(wire.AppendError(nil, full)), full},
		"after authentication": {ok + version + string(wire.AppendError(nil, full)), full},
		"without a SQLSTATE":   {string(wire.AppendMessage(nil, 'E', []byte("SFATAL\x00Mno code\x00\x00"))), &wire.Error{Severity: "FATAL", Code: "XX000", Message: "no code"}},
		"of protocol 2":        {"Ecould not fork new process for connection: out of memory\n\x00", &wire.Error{Severity: "FATAL", Code: "57P03", Message: "could not fork new process for connection: out of memory"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := scripted(t, Target{User: "u", Database: "d"}, tc.says)
			e, ok := errors.AsType[*wire.Error](err)
			if !ok {
				t.Fatal(err)
			}
			if d := cmp.Diff(tc.want, e); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestHostileServers(t *testing.T) {
	fill := string(wire.AppendParameterStatus(nil, "x", strings.Repeat("y", maxMessage-10)))
	challenge := func(s string) string {
		return string(wire.AppendAuthentication(nil, wire.AuthSASLContinue, []byte(s)))
	}
	final := string(wire.AppendAuthentication(nil, wire.AuthSASLFinal, []byte("v="+strings.Repeat("A", 43)+"=")))
	for name, tc := range map[string]struct {
		says string
		want error
	}{
		"endless parameters":       {ok + strings.Repeat(fill, 20), ErrProtocol},
		"endless notices":          {strings.Repeat(notice, maxMessages+1), ErrProtocol},
		"huge message":             {"R\x7f\xff\xff\xff", ErrProtocol},
		"huge error later":         {notice + "Ethis is text\n\x00", ErrProtocol},
		"binary error":             {"E\x00\x00\x00\x01\x02\x03", ErrProtocol},
		"empty error":              {"E\x00\x00\x00\x00", ErrProtocol},
		"not Postgres":             {"HTTP/1.1 400 Bad Request\r\n\r\n", ErrProtocol},
		"ready unasked":            {ready, ErrProtocol},
		"key unasked":              {key, ErrProtocol},
		"rows unasked":             {ok + "D\x00\x00\x00\x06\x00\x00", ErrProtocol},
		"authentication twice":     {ok + ok, ErrProtocol},
		"in a transaction":         {ok + string(wire.AppendReadyForQuery(nil, wire.InTransaction)), ErrProtocol},
		"long key":                 {ok + string(wire.AppendBackendKeyData(nil, 7, make([]byte, 257))), ErrProtocol},
		"bad parameter":            {ok + string(wire.AppendMessage(nil, 'S', []byte("x"))), ErrProtocol},
		"no kind":                  {string(wire.AppendMessage(nil, 'R', []byte("x"))), ErrProtocol},
		"unknown kind":             {string(wire.AppendAuthentication(nil, 7, nil)), ErrMethod},
		"other mechanisms":         {string(wire.AppendAuthSASL(nil, "OAUTHBEARER")), ErrMethod},
		"no list of mechanisms":    {string(wire.AppendAuthentication(nil, wire.AuthSASL, []byte("x"))), ErrProtocol},
		"short salt":               {string(wire.AppendAuthentication(nil, wire.AuthMD5, []byte("abc"))), ErrProtocol},
		"SASL unasked":             {challenge("r=x,s=AAAA,i=1"), ErrProtocol},
		"SASL final unasked":       {final, ErrProtocol},
		"password after SASL":      {sasl + clear, ErrProtocol},
		"password twice":           {clear + clear, ErrProtocol},
		"in without a proof":       {sasl + ok + ready, ErrImposter},
		"final before challenge":   {sasl + final, ErrProtocol},
		"nonce not ours":           {sasl + challenge("r=x,s=AAAA,i=1"), ErrProtocol},
		"dies":                     {sasl, io.ErrUnexpectedEOF},
		"dies in a message":        {ok[:6], io.ErrUnexpectedEOF},
		"negotiates what we speak": {string((&wire.Startup{Minor: 9}).AppendNegotiation(nil)), ErrProtocol},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := scripted(t, Target{User: "u", Database: "d", Credentials: Credentials{Password: "secret"}}, tc.says)
			if s != nil || !errors.Is(err, tc.want) {
				t.Errorf("%v, %v", s, err)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Error("the error tells the password")
			}
		})
	}
}

// answering plays a SCRAM server that lies at one step.
func answering(t *testing.T, conn net.Conn, v *scram.Verifier, lie func(step string, msg []byte) []byte) error {
	if _, err := wire.ReadStartup(conn); err != nil {
		return err
	}
	if _, err := conn.Write([]byte(sasl)); err != nil {
		return err
	}
	_, body, err := wire.ReadMessage(conn, 1000, 'p')
	if err != nil {
		return err
	}
	mechanism, msg, err := wire.ParseSASLInitial(body)
	if err != nil {
		return err
	}
	s, err := scram.NewServer(v, mechanism, nil)
	if err != nil {
		return err
	}
	if msg, err = s.First(msg); err != nil {
		return err
	}
	if _, err := conn.Write(wire.AppendAuthentication(nil, wire.AuthSASLContinue, lie("first", msg))); err != nil {
		return err
	}
	if _, body, err = wire.ReadMessage(conn, 1000, 'p'); err != nil {
		return err
	}
	if msg, err = s.Final(body); err != nil {
		return err
	}
	msg = wire.AppendAuthentication(nil, wire.AuthSASLFinal, lie("final", msg))
	_, err = conn.Write(append(msg, ok+ready...))
	return err
}

func TestServersMustProveThemselves(t *testing.T) {
	replace := func(old, with string) func([]byte) []byte {
		return func(msg []byte) []byte { return []byte(strings.Replace(string(msg), old, with, 1)) }
	}
	for name, tc := range map[string]struct {
		step string
		lie  func([]byte) []byte
		want error
	}{
		"honest":              {"", nil, nil},
		"another signature":   {"final", func([]byte) []byte { return []byte("v=" + strings.Repeat("A", 43) + "=") }, ErrImposter},
		"an error":            {"final", func([]byte) []byte { return []byte("e=other-error") }, ErrImposter},
		"nothing":             {"final", func([]byte) []byte { return nil }, ErrImposter},
		"endless iterations":  {"first", replace("i=4096", "i=2000000000"), ErrProtocol},
		"no salt":             {"first", replace(",s=", ",x="), ErrProtocol},
		"over-long nonce":     {"first", replace(",s=", strings.Repeat("n", 4000)+",s="), ErrProtocol},
		"over-long challenge": {"first", func(m []byte) []byte { return append(m, strings.Repeat(",x=y", 10000)...) }, ErrProtocol},
	} {
		t.Run(name, func(t *testing.T) {
			ours, peer := pipe(t)
			wait := background(func() error {
				return answering(t, peer, verifier(t, "secret"), func(step string, msg []byte) []byte {
					if step == tc.step {
						return tc.lie(msg)
					}
					return msg
				})
			})
			s, err := Login(deadline(t), ours, Target{User: "u", Database: "d", Credentials: Credentials{Password: "secret"}, CPU: make(CPU, 1)})
			if (tc.want == nil) != (s != nil) || !errors.Is(err, tc.want) {
				t.Error(err)
			}
			_ = ours.Close()
			if err := wait(); tc.want == nil && err != nil {
				t.Error(err)
			}
		})
	}
}

// silent is a server that takes connections and says nothing.
func silent(t *testing.T) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		var conns []net.Conn
		for {
			c, err := l.Accept()
			if err != nil {
				break
			}
			conns = append(conns, c)
		}
		for _, c := range conns {
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return l.Addr().String()
}

// TestRefusedLoginsAreAwaited: a server that has refused us still counts the
// connection until it closes, so Dial must not be done before.
func TestRefusedLoginsAreAwaited(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	wait := background(func() error {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		if _, err := wire.ReadStartup(conn); err != nil {
			return err
		}
		if _, err := conn.Write(wire.AppendError(nil, &wire.Error{Severity: "FATAL", Code: "53300", Message: "m"})); err != nil {
			return err
		}
		if err := conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
			return err
		}
		_, err = conn.Read(make([]byte, 1))
		if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
			return nil // the client is still there
		}
		return errors.Join(errors.New("the client has left first"), err)
	})
	_, err = Dial(deadline(t), Target{Network: "tcp", Address: l.Addr().String(), User: "u", Database: "d"})
	if !isCode(err, "53300") {
		t.Error(err)
	}
	if err := wait(); err != nil {
		t.Error(err)
	}
}

func TestContextBounds(t *testing.T) {
	address := silent(t)
	for name, try := range map[string]func(context.Context) error{
		"dial": func(ctx context.Context) error {
			_, err := Dial(ctx, Target{Network: "tcp", Address: address, User: "u", Database: "d"})
			return err
		},
		"cancel": func(ctx context.Context) error { return Cancel(ctx, "tcp", address, 1, []byte("abcd")) },
	} {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		if err := try(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
		ctx, cancel = context.WithCancel(context.Background())
		wait := background(func() error { return try(ctx) })
		cancel()
		if err := wait(); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNoDeadlineRemains(t *testing.T) {
	ours, peer := net.Pipe()
	defer func() { _, _ = ours.Close(), peer.Close() }()
	timed := &recorder{Conn: ours}
	wait := background(func() error {
		if _, err := wire.ReadStartup(peer); err != nil {
			return err
		}
		_, err := peer.Write([]byte(ok + ready))
		return err
	})
	ctx, cancel := context.WithCancel(deadline(t))
	if _, err := Login(ctx, timed, Target{User: "u", Database: "d"}); err != nil {
		t.Fatal(err)
	}
	cancel() // too late to matter
	if err := wait(); err != nil {
		t.Error(err)
	}
	if len(timed.set) == 0 || !timed.set[len(timed.set)-1].IsZero() {
		t.Errorf("deadlines %v", timed.set)
	}
}

// recorder records the deadlines that are set.
type recorder struct {
	net.Conn
	set []time.Time
}

func (r *recorder) SetDeadline(d time.Time) error {
	r.set = append(r.set, d)
	return r.Conn.SetDeadline(d)
}

func TestCancelAndItsAnswer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	serve := func(answer []byte) func() error {
		return background(func() error {
			conn, err := l.Accept()
			if err != nil {
				return err
			}
			defer func() { _ = conn.Close() }()
			p, err := wire.ReadStartup(conn)
			if err != nil {
				return err
			}
			if d := cmp.Diff(&wire.CancelRequest{PID: 9, Secret: []byte("0123456789")}, p); d != "" {
				return errors.New(d)
			}
			_, _ = conn.Write(answer) // the client may have had enough
			return nil
		})
	}
	for name, tc := range map[string]struct {
		answer []byte
		want   error
	}{
		"none":      {nil, nil},
		"an error":  {wire.AppendError(nil, &wire.Error{Severity: "FATAL", Code: "53300", Message: "m"}), nil},
		"a torrent": {make([]byte, 2*maxLogin), ErrProtocol},
	} {
		wait := serve(tc.answer)
		if err := Cancel(deadline(t), "tcp", l.Addr().String(), 9, []byte("0123456789")); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v", name, err)
		}
		if err := wait(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	address := l.Addr().String()
	_ = l.Close()
	if err := Cancel(deadline(t), "tcp", address, 9, []byte("abcd")); err == nil {
		t.Error("nobody is there")
	}
}
