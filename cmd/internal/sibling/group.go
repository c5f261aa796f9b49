package sibling

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/pgweir/pgweir/wire"
)

// MaxProcess is the largest number of a process, and how many can be in a group.
const MaxProcess = 255

// longestName is how much of a group's name a socket's name has room for, in bytes.
const longestName = 64

// longestRequest is the size of the largest CancelRequest in bytes.
const longestRequest = 12 + wire.MaxSecret

// retry is how long to wait for what the kernel has too little of at the moment.
const retry = 20 * time.Millisecond

// terms are what siblings are taken on.
type terms struct {
	user     uint32        // the effective one of a sibling
	atOnce   int           // connections at once; the others wait to be accepted
	patience time.Duration // for a request to arrive
}

// Group is this process's place in its group. Its methods may be called from any
// goroutine.
type Group struct {
	port    string
	process uint32
	handle  func(context.Context, *wire.CancelRequest)
	terms   terms

	socket *net.UnixListener
	ending context.Context // ends with Close
	end    context.CancelFunc
	places chan struct{}
	work   sync.WaitGroup
}

// Join takes the lowest free process number of a group and answers its siblings'
// cancel requests until [Group.Close]. The group is named by the port that its
// processes share; any text will do that is the same in all of them and only there.
//
// handle deals with a request: it returns when the query is cancelled, or there is
// none, or its context ends, which it does with Close. It is called for up to 256
// requests at once, has to check the secret, and must not forward.
//
// The error says that all numbers are taken, or why the system gives no socket.
func Join(port string, handle func(ctx context.Context, r *wire.CancelRequest)) (*Group, error) {
	return join(port, handle, terms{user: uint32(os.Geteuid()), atOnce: 256, patience: time.Second})
}

func join(port string, handle func(context.Context, *wire.CancelRequest), with terms) (*Group, error) {
	for n := uint32(1); n <= MaxProcess; n++ {
		socket, err := net.ListenUnix("unix", address(port, n))
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("no process number on port %s, because there is no socket for it: %w", port, err)
		}
		g := &Group{
			port: port, process: n, handle: handle, terms: with,
			socket: socket, places: make(chan struct{}, with.atOnce),
		}
		g.ending, g.end = context.WithCancel(context.Background())
		g.work.Go(g.accept)
		return g, nil
	}
	return nil, fmt.Errorf("no process number on port %s: all %d are taken, see ss -xl | grep %s", port, MaxProcess, prefix)
}

// prefix begins the names of the sockets.
const prefix = "@pgweir/cancel/"

// address is the socket of a process. The @ stands for the zero byte of an abstract
// name, which is not on any disk. What is too long for a name is hashed.
func address(port string, process uint32) *net.UnixAddr {
	if len(port) > longestName {
		sum := sha256.Sum256([]byte(port))
		port = hex.EncodeToString(sum[:])
	}
	return &net.UnixAddr{Net: "unix", Name: prefix + port + "/" + strconv.FormatUint(uint64(process), 10)}
}

// Process is this process's number, 1 to [MaxProcess].
func (g *Group) Process() uint32 { return g.process }

// Close frees the number, ends the handlers' context and returns when the last has
// returned. It belongs after the end of the last session, whose key has the number;
// a process that starts meanwhile would take it. Further calls do nothing.
func (g *Group) Close() error {
	g.end()
	err := g.socket.Close()
	g.work.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// accept takes connections until Close, as long as there are places: the others are
// queued by the kernel, since a late cancel is better than none.
func (g *Group) accept() {
	for {
		select {
		case g.places <- struct{}{}:
		case <-g.ending.Done():
			return
		}
		conn, err := g.socket.AcceptUnix()
		if err == nil {
			g.work.Go(func() {
				defer func() { <-g.places }()
				g.answer(conn)
			})
			continue
		}
		<-g.places
		if errors.Is(err, net.ErrClosed) || !wait(g.ending, retry) { // else it is out of descriptors
			return
		}
	}
}

// answer deals with one connection. Its end is the answer.
func (g *Group) answer(conn *net.UnixConn) {
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(g.ending, func() { _ = conn.Close() })()
	if !g.trusts(conn) || conn.SetReadDeadline(time.Now().Add(g.terms.patience)) != nil {
		return
	}
	packet, err := wire.ReadStartup(io.LimitReader(conn, longestRequest))
	if r, ok := packet.(*wire.CancelRequest); ok && err == nil {
		g.handle(g.ending, r)
	}
}

// wait waits, and reports whether the context has not ended.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
