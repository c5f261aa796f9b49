package console

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/pgweir/pgweir/cmd/internal/state"
	"github.com/pgweir/pgweir/wire"
)

func TestWelcome(t *testing.T) {
	who := dba()
	who.Params = append(who.Params, wire.Param{Name: "client_encoding", Value: "LATIN1"}, wire.Param{Name: "TimeZone", Value: "Asia/Tokyo"}, wire.Param{Name: "nonsense", Value: "x"})
	p := dialContext(t.Context(), t, New(sampleGuard(), Options{Version: "1.2.3"}), who)
	got := p.until(wire.MsgReadyForQuery)
	for _, want := range []string{
		"parameter application_name=psql\n", "parameter client_encoding=UTF8\n", "parameter server_version=14.0/pgweir 1.2.3\n",
		"parameter TimeZone=Asia/Tokyo\n", "parameter standard_conforming_strings=on\n", "parameter is_superuser=off\n",
		"parameter integer_datetimes=on\n", "parameter session_authorization=dba\n", "BackendKeyData\n", "ready I\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "nonsense") {
		t.Error("an unknown parameter is reported")
	}
}

// extended is the messages of one command in the extended protocol.
func extended(text string, rows uint32, f ...int16) []pgproto3.FrontendMessage {
	return []pgproto3.FrontendMessage{
		&pgproto3.Parse{Query: text}, &pgproto3.Describe{ObjectType: 'S'}, &pgproto3.Bind{ResultFormatCodes: f},
		&pgproto3.Describe{ObjectType: 'P'}, &pgproto3.Execute{MaxRows: rows}, &pgproto3.Sync{},
	}
}

// TestProtocolsAgree asks every table in both protocols, and in binary.
func TestProtocolsAgree(t *testing.T) {
	c := New(sampleGuard(), Options{})
	p := dial(t, c, dba())
	for _, v := range allViews() {
		simple := p.query("SHOW " + v.name)
		for _, format := range []int16{pgproto3.TextFormat, pgproto3.BinaryFormat} {
			p.ask(extended("show "+v.name+";", 0, format)...)
			got := "columns" + p.columnsAndRows()
			if got != simple {
				t.Errorf("SHOW %s, format %d\n got %s\nwant %s", v.name, format, got, simple)
			}
		}
	}
}

// columnsAndRows reads the answer to extended, with binary values as text.
func (p *peer) columnsAndRows() string {
	p.t.Helper()
	var fields []pgproto3.FieldDescription
	var b strings.Builder
	for {
		m, err := p.Receive()
		if err != nil {
			p.t.Fatal(err)
		}
		switch m := m.(type) {
		case *pgproto3.RowDescription:
			fields = append(fields[:0], m.Fields...)
			b.Reset()
			for _, f := range fields {
				fmt.Fprintf(&b, " %s:%d", f.Name, f.DataTypeOID)
			}
			b.WriteString("\n")
		case *pgproto3.DataRow:
			for i, v := range m.Values {
				if v != nil && fields[i].Format == pgproto3.BinaryFormat {
					m.Values[i] = binaryText(fields[i].DataTypeOID, v)
				}
			}
			b.WriteString(transcript(m))
		case *pgproto3.CommandComplete, *pgproto3.ErrorResponse, *pgproto3.PortalSuspended:
			b.WriteString(transcript(m))
		case *pgproto3.ReadyForQuery:
			return b.String()
		}
	}
}

func binaryText(oid uint32, v []byte) []byte {
	switch typ(oid) {
	case integer:
		return strconv.AppendInt(nil, int64(binary.BigEndian.Uint64(v)), 10)
	case real:
		return strconv.AppendFloat(nil, math.Float64frombits(binary.BigEndian.Uint64(v)), 'f', -1, 64)
	case boolean:
		return []byte{"ft"[v[0]]}
	}
	return bytes.Clone(v)
}

func TestBinaryBoolean(t *testing.T) {
	p := dial(t, New(sampleGuard(), Options{}), dba())
	p.ask(extended("SELECT true, false, 5, NULL, 'x'", 0, 1, 1, 1, 1, 0)...)
	if got := p.columnsAndRows(); !strings.HasSuffix(got, "row t | f | 5 | NULL | x\ndone SELECT 1\n") {
		t.Error(got)
	}
}

// TestRowsInPortions takes the rows of a table two by two, over Syncs inside BEGIN.
func TestRowsInPortions(t *testing.T) {
	p := dial(t, New(sampleGuard(), Options{}), dba())
	p.query("BEGIN")
	p.ask(
		&pgproto3.Parse{Query: "SHOW CLIENTS"}, &pgproto3.Bind{DestinationPortal: "c"},
		&pgproto3.Execute{Portal: "c", MaxRows: 3}, &pgproto3.Sync{})
	got := p.until(wire.MsgReadyForQuery)
	if n := strings.Count(got, "row C"); n != 3 || !strings.HasSuffix(got, "PortalSuspended\nready T\n") {
		t.Errorf("first portion:\n%s", got)
	}
	p.ask(&pgproto3.Execute{Portal: "c"}, &pgproto3.Execute{Portal: "c"}, &pgproto3.Sync{})
	got = p.until(wire.MsgReadyForQuery)
	if n := strings.Count(got, "row C"); n != 1 || !strings.Contains(got, "done SHOW\nERROR 55000") {
		t.Errorf("the rest:\n%s", got)
	}
	p.query("COMMIT")
	p.ask(&pgproto3.Sync{}, &pgproto3.Execute{Portal: "c"}, &pgproto3.Sync{})
	p.until(wire.MsgReadyForQuery)
	if got := p.until(wire.MsgReadyForQuery); !strings.HasPrefix(got, "ERROR 34000") {
		t.Errorf("a portal outlived its transaction:\n%s", got)
	}
}

// TestSuspendedPortalIsDropped: closing, rebinding and leaving end what makes the rows.
// That nothing is left is for goleak to see.
func TestSuspendedPortalIsDropped(t *testing.T) {
	for name, end := range map[string][]pgproto3.FrontendMessage{
		"close":  {&pgproto3.Close{ObjectType: 'P'}, &pgproto3.Sync{}},
		"rebind": {&pgproto3.Bind{}, &pgproto3.Sync{}},
		"sync":   {&pgproto3.Sync{}},
		"query":  {&pgproto3.Query{String: "SHOW VERSION"}},
		"leave":  nil,
	} {
		t.Run(name, func(t *testing.T) {
			p := dial(t, New(sampleGuard(), Options{}), dba())
			p.ask(&pgproto3.Parse{Query: "SHOW CLIENTS"}, &pgproto3.Bind{}, &pgproto3.Execute{MaxRows: 1}, &pgproto3.Flush{})
			p.until(wire.MsgPortalSuspended)
			if end != nil {
				p.ask(end...)
				p.until(wire.MsgReadyForQuery)
			}
			_ = p.conn.Close()
			if err := p.ended(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestExtendedErrors(t *testing.T) {
	c := New(sampleGuard(), Options{})
	for name, test := range map[string]struct {
		ask  []pgproto3.FrontendMessage
		want string
	}{
		"two commands":       {[]pgproto3.FrontendMessage{&pgproto3.Parse{Query: "SHOW VERSION; SHOW STATE"}}, "ERROR 42601"},
		"bad command":        {[]pgproto3.FrontendMessage{&pgproto3.Parse{Query: "NONSENSE"}}, "ERROR 42601"},
		"same name":          {[]pgproto3.FrontendMessage{&pgproto3.Parse{Name: "a", Query: ""}, &pgproto3.Parse{Name: "a", Query: ""}}, "ParseComplete\nERROR 42P05"},
		"no statement":       {[]pgproto3.FrontendMessage{&pgproto3.Bind{PreparedStatement: "b"}}, "ERROR 26000"},
		"describe none":      {[]pgproto3.FrontendMessage{&pgproto3.Describe{ObjectType: 'S', Name: "b"}}, "ERROR 26000"},
		"describe no portal": {[]pgproto3.FrontendMessage{&pgproto3.Describe{ObjectType: 'P', Name: "b"}}, "ERROR 34000"},
		"no portal":          {[]pgproto3.FrontendMessage{&pgproto3.Execute{Portal: "b"}}, "ERROR 34000"},
		"parameters":         {[]pgproto3.FrontendMessage{&pgproto3.Parse{Query: "SHOW VERSION"}, &pgproto3.Bind{Parameters: [][]byte{nil}}}, "ParseComplete\nERROR 08P01"},
		"formats":            {[]pgproto3.FrontendMessage{&pgproto3.Parse{Query: "SHOW VERSION"}, &pgproto3.Bind{ResultFormatCodes: []int16{0, 0}}}, "ParseComplete\nERROR 08P01"},
		"empty":              {[]pgproto3.FrontendMessage{&pgproto3.Parse{}, &pgproto3.Bind{}, &pgproto3.Describe{ObjectType: 'P'}, &pgproto3.Execute{}}, "ParseComplete\nBindComplete\nNoData\nEmptyQueryResponse\nready"},
		"close nothing":      {[]pgproto3.FrontendMessage{&pgproto3.Close{ObjectType: 'S', Name: "b"}, &pgproto3.Close{ObjectType: 'P', Name: "b"}}, "CloseComplete\nCloseComplete\nready"},
		"function call":      {[]pgproto3.FrontendMessage{&pgproto3.FunctionCall{}}, "ERROR 0A000"},
		"copy data":          {[]pgproto3.FrontendMessage{&pgproto3.CopyData{Data: []byte("x")}, &pgproto3.CopyDone{}}, "ready"},
		"same portal":        {[]pgproto3.FrontendMessage{&pgproto3.Parse{}, &pgproto3.Bind{DestinationPortal: "p"}, &pgproto3.Bind{DestinationPortal: "p"}}, "ParseComplete\nBindComplete\nERROR 42P03"},
		"not allowed":        {[]pgproto3.FrontendMessage{&pgproto3.Parse{Query: "KILL"}, &pgproto3.Bind{}, &pgproto3.Execute{}}, "ParseComplete\nBindComplete\nERROR 42501"},
	} {
		t.Run(name, func(t *testing.T) {
			who := dba()
			who.Admin = false
			p := dial(t, c, who)
			// what follows the error is skipped up to the Sync
			p.ask(append(test.ask, &pgproto3.Sync{})...)
			got := p.until(wire.MsgReadyForQuery)
			if !strings.HasPrefix(got, test.want) || !strings.HasSuffix(got, "ready I\n") {
				t.Errorf("got %s", got)
			}
			if got := p.query("SELECT 1"); name != "function call" && !strings.Contains(got, "done SELECT 1") {
				t.Errorf("afterwards: %s", got)
			}
		})
	}
}

// TestBoundsOfOneSession: prepared statements and portals are bounded in number.
func TestBoundsOfOneSession(t *testing.T) {
	p := dial(t, New(sampleGuard(), Options{}), dba())
	answers := make(chan string, 1)
	go func() { answers <- p.until(wire.MsgReadyForQuery) }()
	for i := range mostStatements + 1 {
		p.ask(&pgproto3.Parse{Name: strconv.Itoa(i), Query: "SHOW VERSION"})
	}
	p.ask(&pgproto3.Sync{})
	got := <-answers
	if strings.Count(got, "ParseComplete") != mostStatements || !strings.Contains(got, "ERROR 53400 too many prepared statements") {
		t.Errorf("%d statements; %s", strings.Count(got, "ParseComplete"), got[max(0, len(got)-200):])
	}
	p.query("DEALLOCATE ALL")
	go func() { answers <- p.until(wire.MsgReadyForQuery) }()
	p.ask(&pgproto3.Parse{Query: "SHOW VERSION"})
	for i := range mostPortals + 1 {
		p.ask(&pgproto3.Bind{DestinationPortal: strconv.Itoa(i)})
	}
	p.ask(&pgproto3.Sync{})
	if got := <-answers; strings.Count(got, "BindComplete") != mostPortals || !strings.Contains(got, "ERROR 53400 too many portals") {
		t.Errorf("%d portals", strings.Count(got, "BindComplete"))
	}
}

// TestPauseIsInterrupted: a cancel request, the end of the peer and the end of pgweir end
// the wait, not the pause.
func TestPauseIsInterrupted(t *testing.T) {
	t.Run("cancel", func(t *testing.T) {
		g, cancel := sampleGuard(), make(chan struct{}, 1)
		g.blocked = make(chan struct{})
		who := dba()
		who.Cancel = cancel
		p := dial(t, New(g, Options{}), who)
		cancel <- struct{}{} // too early: for nothing that runs
		if got := p.query("SHOW VERSION"); !strings.Contains(got, "done SHOW") {
			t.Fatal(got)
		}
		p.ask(&pgproto3.Query{String: "PAUSE shop"})
		<-g.blocked
		cancel <- struct{}{}
		got := p.until(wire.MsgReadyForQuery)
		if !strings.HasPrefix(got, "NOTICE 00000 the pause goes on") || !strings.Contains(got, "HINT RESUME shop ends it.\nERROR 57014") {
			t.Error(got)
		}
	})
	t.Run("leave", func(t *testing.T) {
		g := sampleGuard()
		g.blocked = make(chan struct{})
		p := dial(t, New(g, Options{}), dba())
		p.ask(&pgproto3.Query{String: "PAUSE"})
		<-g.blocked
		_ = p.conn.Close()
		_ = p.ended() // it may say that the answer could not be written
	})
	t.Run("end of pgweir", func(t *testing.T) {
		g := sampleGuard()
		g.blocked = make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		p := dialContext(ctx, t, New(g, Options{}), dba())
		p.until(wire.MsgReadyForQuery)
		p.ask(&pgproto3.Query{String: "PAUSE"})
		<-g.blocked
		cancel()
		if got := p.until(wire.MsgReadyForQuery); !strings.HasPrefix(got, "ERROR 57P03") {
			t.Error(got)
		}
		if got := p.until(wire.MsgErrorResponse); !strings.HasPrefix(got, "FATAL 57P01") {
			t.Error(got)
		}
		if err := p.ended(); err != nil {
			t.Error(err)
		}
	})
}

// TestHalfClosed: who closes only its sending side still gets its answers.
func TestHalfClosed(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	done := make(chan error, 1)
	go func() {
		conn, err := ln.Accept()
		if err == nil {
			err = New(sampleGuard(), Options{}).Serve(t.Context(), conn, dba())
		}
		done <- err
	}()
	conn, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(patience))
	p := &peer{Frontend: pgproto3.NewFrontend(conn, conn), t: t, conn: conn, done: done}
	p.ask(&pgproto3.Query{String: "SHOW CLIENTS"}, &pgproto3.Query{String: "SHOW STATE"})
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	p.until(wire.MsgReadyForQuery)
	if got := p.until(wire.MsgReadyForQuery); strings.Count(got, "row C") != 4 {
		t.Error(got)
	}
	if got := p.until(wire.MsgReadyForQuery); !strings.Contains(got, "row active | yes") {
		t.Error(got)
	}
	if err := p.ended(); err != nil {
		t.Error(err)
	}
	_ = conn.Close()
}

// TestHostileBytes: no message of a peer does more than end its session.
func TestHostileBytes(t *testing.T) {
	c := New(sampleGuard(), Options{})
	for name, test := range map[string]struct {
		bytes []byte
		want  string
	}{
		"unknown type":    {[]byte("!\x00\x00\x00\x04"), "FATAL 08P01"},
		"short length":    {[]byte("Q\x00\x00\x00\x03"), "FATAL 08P01"},
		"negative length": {[]byte("Q\xff\xff\xff\xff"), "FATAL 08P01"},
		"huge message":    {[]byte("Q\x7f\xff\xff\xff"), "FATAL 54000"},
		"no zero byte":    {[]byte("Q\x00\x00\x00\x07SHO"), "FATAL 08P01"},
		"truncated bind":  {[]byte("B\x00\x00\x00\x06\x00\x00"), "FATAL 08P01"},
		"many parameters": {[]byte("B\x00\x00\x00\x0a\x00\x00\x00\x00\xff\xff"), "FATAL 08P01"},
		"password":        {[]byte("p\x00\x00\x00\x07ab\x00"), "FATAL 08P01"},
		"startup packet":  {[]byte("\x00\x00\x00\x08\x00\x03\x00\x00"), "FATAL 08P01"},
	} {
		t.Run(name, func(t *testing.T) {
			p := dial(t, c, dba())
			if _, err := p.conn.Write(test.bytes); err != nil {
				t.Fatal(err)
			}
			if got := p.until(wire.MsgErrorResponse); !strings.HasPrefix(got, test.want) {
				t.Error(got)
			}
			if err := p.ended(); err == nil {
				t.Error("Serve does not say why it ended")
			}
		})
	}
}

// TestSlowReader: who takes nothing is let go after WriteTimeout.
func TestSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := sampleGuard()
		for i := range 10_000 {
			g.clients = append(g.clients, state.Client{ID: uint64(100 + i), State: "idle"})
		}
		p := dial(t, New(g, Options{WriteTimeout: 30 * time.Second}), dba())
		_ = p.conn.SetDeadline(time.Time{})
		p.ask(&pgproto3.Query{String: "SHOW CLIENTS"})
		start := time.Now()
		err := <-p.done // nothing is read
		if ne, ok := errors.AsType[net.Error](err); !ok || !ne.Timeout() {
			t.Errorf("ended with %v", err)
		}
		if d := time.Since(start); d != 30*time.Second {
			t.Errorf("ended after %s", d)
		}
	})
}

// TestShutdownDoesNotWaitForASlowReader: a peer that takes nothing holds pgweir for a second.
func TestShutdownDoesNotWaitForASlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := sampleGuard()
		for i := range 1000 {
			g.clients = append(g.clients, state.Client{ID: uint64(100 + i), State: "idle"})
		}
		ctx, cancel := context.WithCancel(t.Context())
		p := dialContext(ctx, t, New(g, Options{WriteTimeout: time.Hour}), dba())
		p.until(wire.MsgReadyForQuery)
		_ = p.conn.SetDeadline(time.Time{})
		p.ask(&pgproto3.Query{String: "SHOW CLIENTS"})
		synctest.Wait()
		start := time.Now()
		cancel()
		if err := <-p.done; err != nil {
			t.Errorf("ended with %v", err)
		}
		if d := time.Since(start); d > 2*lastWords {
			t.Errorf("ended after %s", d)
		}
	})
}

// TestManyClients streams more rows than are ever held at once.
func TestManyClients(t *testing.T) {
	g := sampleGuard()
	for i := range 10_000 {
		g.clients = append(g.clients, state.Client{ID: uint64(100 + i), State: "idle"})
	}
	p := dial(t, New(g, Options{}), dba())
	p.ask(&pgproto3.Query{String: "SHOW CLIENTS"})
	if n := strings.Count(p.until(wire.MsgReadyForQuery), "row C"); n != len(g.clients) {
		t.Errorf("%d rows of %d", n, len(g.clients))
	}
}

// TestNoAnswer: a guard that does not answer is no reason to hang.
func TestNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &stuckGuard{fakeGuard: sampleGuard()}
		p := dial(t, New(g, Options{}), dba())
		if got := p.query("SHOW POOLS"); !strings.HasPrefix(got[strings.IndexByte(got, '\n')+1:], "ERROR XX000 pgweir did not answer within 10s") {
			t.Error(got)
		}
		_ = p.conn.Close()
		<-p.done
	})
}

// stuckGuard never has a snapshot.
type stuckGuard struct{ *fakeGuard }

func (*stuckGuard) Snapshot(ctx context.Context) (*state.Snapshot, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestPanic: a defect ends one session with a word.
func TestPanic(t *testing.T) {
	g := &panicGuard{fakeGuard: sampleGuard()}
	p := dial(t, New(g, Options{}), dba())
	p.ask(&pgproto3.Query{String: "SHOW POOLS"})
	if got := p.until(wire.MsgErrorResponse); !strings.Contains(got, "FATAL XX000") {
		t.Error(got)
	}
	if err := p.ended(); err == nil {
		t.Error("no error")
	}
}

type panicGuard struct{ *fakeGuard }

func (*panicGuard) Snapshot(context.Context) (*state.Snapshot, error) { panic("defect") }

// TestAveragesLookBack: avg_ columns compare with the sample before the last.
func TestAveragesLookBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := sampleGuard()
		c := New(g, Options{})
		ctx, cancel := context.WithCancel(t.Context())
		go c.Run(ctx)
		at := time.Now()
		step := func(transactions uint64, took time.Duration) {
			g.mu.Lock()
			s := *g.snapshot
			s.Now, s.Started = time.Now(), at
			d := s.Databases[0]
			d.Traffic = state.Traffic{Transactions: transactions, TransactionTime: took}
			s.Databases = []state.Database{d}
			g.snapshot = &s
			g.mu.Unlock()
		}
		figure := func() string {
			p := dial(t, c, dba())
			_ = p.conn.SetDeadline(time.Time{})
			row := strings.Split(strings.Split(p.query("SHOW STATS_AVERAGES"), "\n")[1], " | ")
			_ = p.conn.Close()
			<-p.done
			return row[2] + " " + row[6]
		}
		wait := func(d time.Duration) { <-time.After(d); synctest.Wait() }

		step(0, 0)
		wait(50 * time.Second)
		step(500, 500*time.Millisecond)
		if got := figure(); got != "10 1000" { // 500 in 50 s, 1 ms each, since the start
			t.Errorf("at the start: %s", got)
		}
		wait(20 * time.Second) // a sample of 500 at 60 s
		wait(60 * time.Second) // another at 120 s
		step(600, 700*time.Millisecond)
		// The older sample says Now = 50 s, as the snapshot that it was taken of: 100 in 80 s.
		if got := figure(); got != "1 2000" {
			t.Errorf("after two periods: %s", got)
		}
		step(5, 5*time.Millisecond) // the counters have started again
		if got := figure(); got != "0 1000" {
			t.Errorf("after a new start: %s", got)
		}
		cancel()
		synctest.Wait()
	})
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"SHOW POOLS", "SET a.\"b c\".d = 'x''y', 2", "SELECT 1 AS a, 'x'::text, version()", "/* /* */ */ -- x\nPAUSE \"a\"", "$a$ $b$ $a$", "E'\\'", "$1", "é;;;\x00\xff", "KILL_CLIENT 1",
		"$" + strings.Repeat("0", 500),
	} {
		f.Add(s)
	}
	c := New(sampleGuard(), Options{})
	f.Fuzz(func(t *testing.T, query string) {
		list, err := c.parse(query)
		if err != nil {
			if len(list) > 0 {
				t.Error("an error, and commands")
			}
			e, ok := errors.AsType[*failure](err)
			if !ok || e.place < 0 || e.place > len(query)+1 || len(e.message) > 400 {
				t.Errorf("%#v", err)
			}
			return
		}
		s := &session{c: c, params: parameters()}
		for _, cmd := range list {
			p := s.plan(cmd)
			if (p.rows == nil) != (p.columns == nil) || (p.do == nil) == (p.rows == nil) || p.tag == "" {
				t.Errorf("%q: %+v", query, p)
			}
			if cmd.verb == "SHOW" && c.views[cmd.arg] == nil {
				t.Errorf("%q shows %q", query, cmd.arg)
			}
		}
	})
}

// FuzzServe: whatever a peer sends, Serve ends when it leaves, and every Query and Sync
// that was read is answered.
func FuzzServe(f *testing.F) {
	seed := func(list ...pgproto3.FrontendMessage) {
		var b []byte
		for _, m := range list {
			b, _ = m.Encode(b)
		}
		f.Add(b)
	}
	seed(&pgproto3.Query{String: "SHOW CLIENTS; BEGIN"}, &pgproto3.Query{String: "x"})
	seed(extended("SHOW SERVERS", 2, 1)...)
	seed(append(extended("SELECT 1", 0), &pgproto3.Close{ObjectType: 'S'}, &pgproto3.Flush{}, &pgproto3.Terminate{})...)
	c := New(sampleGuard(), Options{})
	f.Fuzz(func(t *testing.T, in []byte) {
		conn := &recorded{in: bytes.NewReader(in)}
		_ = c.Serve(context.Background(), conn, dba()) // an error is fine
		front := pgproto3.NewFrontend(bytes.NewReader(conn.out.Bytes()), nil)
		for {
			if _, err := front.Receive(); err != nil {
				if conn.out.Len() > 0 && err.Error() != "unexpected EOF" {
					t.Errorf("the answer is no protocol: %v", err)
				}
				return
			}
		}
	})
}

// recorded is a connection that sends what is given and keeps what it gets.
type recorded struct {
	net.Conn
	in  *bytes.Reader
	out bytes.Buffer
}

func (c *recorded) Read(b []byte) (int, error)     { return c.in.Read(b) }
func (c *recorded) Write(b []byte) (int, error)    { return c.out.Write(b) }
func (*recorded) Close() error                     { return nil }
func (*recorded) SetWriteDeadline(time.Time) error { return nil }
