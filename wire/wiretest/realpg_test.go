package wiretest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

// realServer is a temporary PostgreSQL for the comparison.
type realServer struct {
	dir string
	cmd *exec.Cmd
}

// errNoPostgres means that no PostgreSQL is installed.
var errNoPostgres = errors.New("no initdb found: install the postgresql package")

// sharedServer is started by the first test that asks, and stopped by TestMain.
type sharedServer struct {
	once sync.Once
	s    *realServer
	err  error
}

var shared sharedServer

func server() (*realServer, error) {
	shared.once.Do(func() {
		if shared.s, shared.err = startServer(); shared.err != nil && shared.s != nil {
			shared.s.stop()
		}
	})
	return shared.s, shared.err
}

func TestMain(m *testing.M) {
	code := m.Run()
	if shared.s != nil && shared.err == nil {
		shared.s.stop()
	}
	os.Exit(code)
}

// startServer starts a cluster that listens on a Unix socket only.
func startServer() (*realServer, error) {
	bin, err := findPostgres()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "wiretest")
	if err != nil {
		return nil, err
	}
	s := &realServer{dir: dir}
	cred, err := unprivileged(dir)
	if err != nil {
		return s, err
	}
	data := filepath.Join(dir, "data")
	initdb := exec.Command(filepath.Join(bin, "initdb"), "-D", data, "-U", "test", "-A", "trust",
		"--no-sync", "--locale=C", "--encoding=UTF8")
	initdb.SysProcAttr, initdb.Dir = cred, dir
	if out, err := initdb.CombinedOutput(); err != nil {
		return s, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	s.cmd = exec.Command(filepath.Join(bin, "postgres"), "-D", data, "-k", dir, "-c", "listen_addresses=",
		"-c", "fsync=off", "-c", "autovacuum=off", "-c", "timezone=UTC", "-c", "log_timezone=UTC",
		"-c", "log_min_messages=fatal", "-c", "max_connections=20", "-c", "shared_buffers=16MB")
	s.cmd.SysProcAttr, s.cmd.Dir = cred, dir
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return s, err
	}
	s.cmd.Stderr = log
	if err := s.cmd.Start(); err != nil {
		return s, err
	}
	return s, s.prepare()
}

func (s *realServer) stop() {
	if s.cmd != nil && s.cmd.Process != nil {
		_ = s.cmd.Process.Signal(syscall.SIGINT)
		_ = s.cmd.Wait()
	}
	_ = os.RemoveAll(s.dir)
}

// findPostgres returns the folder of initdb, from PATH or where Debian puts it.
func findPostgres() (string, error) {
	if p, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(p), nil
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) == 0 {
		return "", errNoPostgres
	}
	return filepath.Dir(found[len(found)-1]), nil
}

// unprivileged returns how to run a server that refuses to be root, and gives
// that user the folder.
func unprivileged(dir string) (*syscall.SysProcAttr, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		if u, err = user.Lookup("nobody"); err != nil {
			return nil, err
		}
	}
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	if err := os.Chown(dir, uid, gid); err != nil {
		return nil, err
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
}

// prepare waits for the server and makes what the translated statements need.
func (s *realServer) prepare() error {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		c, _, err := s.login()
		if err == nil {
			defer c.Close()
			return s.schema(c)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return err
		}
	}
}

func (s *realServer) schema(c net.Conn) error {
	sql := `create table t(x text); create table tb(x text);
create function refuse() returns trigger language plpgsql as $$ begin
  raise exception 'refused before the first row'; end $$;
create trigger r before insert on tb for each statement execute function refuse();
create function started() returns trigger language plpgsql as $$ begin
  perform set_config('test.rows', '0', true); return null; end $$;
create function counted() returns trigger language plpgsql as $$
declare n int := current_setting('test.rows')::int + 1;
begin
  if n = tg_argv[0]::int then
    raise exception using errcode = '22P02', message = 'refused at message ' || n; end if;
  perform set_config('test.rows', n::text, true); return new; end $$;`
	for i := 1; i <= 3; i++ {
		sql += fmt.Sprintf(`create table tf%d(x text);
create trigger s before insert on tf%d for each statement execute function started();
create trigger r before insert on tf%d for each row execute function counted(%d);`, i, i, i, i)
	}
	p := NewPlayer([]Step{queryStep(sql), {Op: OpWaitReady}, {Op: OpSend, Bytes: []byte{'X', 0, 0, 0, 4}}})
	out, err := playReal(c, p, nil)
	if msgs, _ := Messages(out); err == nil && len(msgs) > 0 && msgs[len(msgs)-1].Type != 'Z' {
		err = errors.New("no answer")
	}
	for _, line := range comparable(out) {
		if line[0] == 'E' {
			return fmt.Errorf("schema: %s", line)
		}
	}
	return err
}

// login returns a connection after its first ReadyForQuery, and its cancel key.
func (s *realServer) login() (net.Conn, []byte, error) {
	c, err := net.Dial("unix", filepath.Join(s.dir, ".s.PGSQL.5432"))
	if err != nil {
		return nil, nil, err
	}
	body := binary.BigEndian.AppendUint32(nil, 3<<16)
	body = append(body, "user\x00test\x00database\x00postgres\x00\x00"...)
	packet := binary.BigEndian.AppendUint32(nil, uint32(len(body)+4))
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := c.Write(append(packet, body...)); err != nil {
		return nil, nil, errors.Join(err, c.Close())
	}
	var key []byte
	for {
		m, err := readMessage(c)
		if err == nil && m.Type == 'E' {
			err = errors.New(errorText(m.Body))
		}
		switch {
		case err != nil:
			return nil, nil, errors.Join(err, c.Close())
		case m.Type == 'K':
			key = m.Body
		case m.Type == 'Z':
			return c, key, nil
		}
	}
}

func readMessage(r io.Reader) (Message, error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return Message{}, err
	}
	body := make([]byte, binary.BigEndian.Uint32(head[1:])-4)
	_, err := io.ReadFull(r, body)
	return Message{head[0], body}, err
}

// cancel sends a CancelRequest and waits until the server has taken it.
func (s *realServer) cancel(key []byte) error {
	c, err := net.Dial("unix", filepath.Join(s.dir, ".s.PGSQL.5432"))
	if err != nil {
		return err
	}
	defer c.Close()
	packet := append([]byte{0, 0, 0, 16, 4, 210, 22, 46}, key...)
	if _, err := c.Write(packet); err != nil {
		return err
	}
	_, err = io.ReadAll(c)
	return err
}

// realClient plays scripts against a server.
type realClient struct {
	c    *net.UnixConn
	p    *Player
	out  []byte
	half bool               // the sending side is closed
	act  func(s Step) error // OpCancel, opDie; nil if scripts have none
}

// opDie is what only these tests do: the administrator ends the session.
const opDie Op = 100

// playReal plays a script and returns all that the server said up to the end
// of the connection.
func playReal(c net.Conn, p *Player, act func(Step) error) ([]byte, error) {
	r := &realClient{c: c.(*net.UnixConn), p: p, act: act}
	buf := make([]byte, 64<<10)
	for {
		if s, ok := p.Next(); ok {
			if err := r.do(s); err != nil {
				return r.out, err
			}
			continue
		}
		if p.Done() && !r.half && p.Tracker.Settled() && !p.Tracker.Ended() {
			if err := r.do(Step{Op: OpHalfClose}); err != nil {
				return r.out, err
			}
		}
		n, err := c.Read(buf)
		r.out = append(r.out, buf[:n]...)
		p.Received(buf[:n])
		if err == io.EOF || errors.Is(err, syscall.ECONNRESET) {
			p.Closed()
			return r.out, nil
		}
		if err != nil {
			return r.out, fmt.Errorf("client waits in op %d: %w", p.Waiting(), err)
		}
	}
}

func (r *realClient) do(s Step) error {
	switch s.Op {
	case OpSend:
		_, err := r.c.Write(s.Bytes)
		if errors.Is(err, syscall.EPIPE) {
			err = nil // the server has closed: its last words are still to be read
		}
		return err
	case OpClose, OpHalfClose:
		r.half = true
		return r.c.CloseWrite()
	}
	return r.act(s)
}

// control is a second session that looks at the first and acts on it.
type control struct {
	s   *realServer
	c   net.Conn
	key []byte // of the first session
}

func (s *realServer) control(t *testing.T, key []byte) *control {
	t.Helper()
	c, _, err := s.login()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return &control{s: s, c: c, key: key}
}

// ask returns the only value of a query's result.
func (k *control) ask(sql string) (string, error) {
	_ = k.c.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := k.c.Write(queryStep(sql).Bytes); err != nil {
		return "", err
	}
	var value string
	for {
		m, err := readMessage(k.c)
		switch {
		case err != nil:
			return "", err
		case m.Type == 'E':
			return "", errors.New(errorText(m.Body))
		case m.Type == 'D':
			r := &reader{b: m.Body}
			r.int16()
			value = string(r.value())
		case m.Type == 'Z':
			return value, nil
		}
	}
}

// act waits until the first session does what the step expects, then cancels
// or ends it.
func (k *control) act(s Step) error {
	pid := binary.BigEndian.Uint32(k.key)
	event := "ClientRead"
	if s.N == 1 {
		event = "PgSleep"
	}
	for now := ""; now != event; {
		var err error
		now, err = k.ask(fmt.Sprintf("select wait_event from pg_stat_activity where pid = %d", pid))
		if err != nil {
			return err
		}
	}
	if s.Op == OpCancel {
		return k.s.cancel(k.key)
	}
	_, err := k.ask(fmt.Sprintf("select pg_terminate_backend(%d)", pid))
	return err
}

// rows counts what was inserted and copied, and committed.
func (k *control) rows() (int, error) {
	v, err := k.ask(`select (select count(*) from t) + (select count(*) from tb) + (select count(*) from tf1) +
		(select count(*) from tf2) + (select count(*) from tf3)`)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(v)
}

func queryStep(text string) Step {
	b := append([]byte{'Q', 0, 0, 0, 0}, text...)
	b = append(b, 0)
	binary.BigEndian.PutUint32(b[1:], uint32(len(b)-1))
	return Step{Op: OpSend, Bytes: b}
}

func requireServer(t *testing.T) *realServer {
	t.Helper()
	s, err := server()
	if errors.Is(err, errNoPostgres) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}
