package sibling

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pgweir/pgweir/wire"
)

// patience is how long a test waits for what has to happen.
const patience = 20 * time.Second

// memberOf makes this test binary be a member of that group, which trusts a user.
const (
	memberOf = "PGWEIR_TEST_MEMBER_OF"
	trusted  = "PGWEIR_TEST_TRUSTED"
)

func TestMain(m *testing.M) {
	if port := os.Getenv(memberOf); port != "" {
		member(port)
		return
	}
	goleak.VerifyTestMain(m)
}

// member joins, says what happens and does what its standard input says. It never
// ends what it handles.
func member(port string) {
	// It trusts the user of its parent, also when it is not its own.
	parent, err := strconv.ParseUint(os.Getenv(trusted), 10, 32)
	if err != nil {
		panic(err)
	}
	g, err := join(port, func(ctx context.Context, r *wire.CancelRequest) {
		fmt.Println("handles", r.PID)
		<-ctx.Done()
	}, terms{user: uint32(parent), atOnce: 10, patience: patience})
	if err != nil {
		panic(err)
	}
	fmt.Println("joined", g.Process())
	for orders := bufio.NewScanner(os.Stdin); orders.Scan(); {
		n, err := strconv.ParseUint(orders.Text(), 10, 32)
		if err != nil {
			panic(err)
		}
		g.Forward(context.Background(), uint32(n), request(77))
		fmt.Println("forwarded", n)
	}
}

// child is a process that is a member.
type child struct {
	cmd    *exec.Cmd
	orders io.WriteCloser
	says   *bufio.Reader
}

// start starts a member, as a user or as this one if that is 0.
func start(t *testing.T, port string, user uint32) *child {
	t.Helper()
	c := &child{cmd: exec.Command("/proc/self/exe")} // whatever the directory's permissions
	c.cmd.Env = append(os.Environ(), memberOf+"="+port, trusted+"="+strconv.Itoa(os.Geteuid()))
	c.cmd.Stderr = os.Stderr
	if user != 0 {
		c.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
	}
	var err error
	if c.orders, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.says = bufio.NewReader(out)
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.kill)
	return c
}

// kill ends the process as kill -9 does and returns when it has ended.
func (c *child) kill() {
	_ = c.cmd.Process.Kill() // it may have ended
	_ = c.cmd.Wait()
}

// hears waits for the next line of the process.
func (c *child) hears(t *testing.T, want string) {
	t.Helper()
	slow := time.AfterFunc(patience, func() { _ = c.cmd.Process.Kill() })
	defer slow.Stop()
	line, err := c.says.ReadString('\n')
	if line != want+"\n" {
		t.Fatalf("the other process said %q (%v), want %q", line, err, want)
	}
}

// name is a group that no other run of the tests is in.
func name(t *testing.T) string {
	return strconv.Itoa(os.Getpid()) + "/" + t.Name()
}

// request is a cancel request with a secret of protocol 3.0.
func request(pid uint32) *wire.CancelRequest {
	return &wire.CancelRequest{PID: pid, Secret: []byte("abcd")}
}

// nobody fails the test when it gets a request.
func nobody(t *testing.T) func(context.Context, *wire.CancelRequest) {
	return func(_ context.Context, r *wire.CancelRequest) { t.Errorf("handles %+v", r) }
}

// joined joins until the end of the test.
func joined(t *testing.T, port string, handle func(context.Context, *wire.CancelRequest)) *Group {
	t.Helper()
	g, err := Join(port, handle)
	return lasting(t, g, err)
}

// lasting closes a group at the end of the test.
func lasting(t *testing.T, g *Group, err error) *Group {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

// forward forwards on a goroutine; the channel is closed at the end.
func forward(t *testing.T, g *Group, process uint32, r *wire.CancelRequest) <-chan struct{} {
	ctx, stop := context.WithTimeout(context.Background(), patience)
	var work sync.WaitGroup
	done := make(chan struct{})
	work.Go(func() {
		defer close(done)
		g.Forward(ctx, process, r)
	})
	t.Cleanup(func() {
		stop()
		work.Wait()
	})
	return done
}

// await waits for a channel to be closed, or have an element.
func await[T any](t *testing.T, what string, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(patience):
		t.Fatalf("%s did not come", what)
	}
	return v
}

// isOpen fails if a channel has ended.
func isOpen(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
		t.Errorf("%s too early", strings.TrimSpace(what))
	default:
	}
}
