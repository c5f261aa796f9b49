package pump

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/pgweir/pgweir/cmd/internal/session"
	"github.com/pgweir/pgweir/wire"
)

const (
	// farewellMost bounds the wait for a client to take notice of its end.
	farewellMost = time.Second
	// endMost bounds the wait for a server process to be gone.
	endMost = 5 * time.Second
	// abortAfter is how long that is waited for before what the process does is cancelled.
	abortAfter = 100 * time.Millisecond
	// pumpSize is how much is read at once, in bytes.
	pumpSize = 64 * 1024
)

// Pump hands on what a client and a server say to each other, until one of them ends. It reads
// no more of it than where messages begin, so that a last word comes between two of them. Its
// exported fields are set before Run.
type Pump struct {
	Client, Server net.Conn
	Welcome        []byte                     // the first that the client hears
	farewell       atomic.Pointer[wire.Error] // why it is to end
	received, sent atomic.Uint64              // bytes from and to the client

	left    atomic.Bool // the client has gone
	goodbye atomic.Bool // and has said so
}

// Run copies until either side has ended, or ctx has: then the client is told what End was given,
// if it was called. It closes both connections and returns why; abort is to stop what the server does.
func (p *Pump) Run(ctx context.Context, abort func()) (why string) {
	defer context.AfterFunc(ctx, p.wake)()
	up := make(chan struct{})
	go func() {
		defer close(up)
		p.up()
	}()
	why, over := p.down()
	_ = p.Client.SetReadDeadline(time.Now().Add(farewellMost)) // sockets that can't be timed fail at once
	halfClose(p.Client)
	if !over {
		p.endServer(abort)
	}
	_ = p.Server.Close()
	<-up
	_ = p.Client.Close()
	return why
}

// endServer waits for the end of the server's process: it keeps its socket until it has given
// back its place. One that does not look at its socket is to stop what it does.
func (p *Pump) endServer(abort func()) {
	_ = p.Server.SetDeadline(time.Now().Add(endMost)) // sockets that can't be timed fail at once
	if !p.goodbye.Load() {
		halfClose(p.Server)
	}
	aborted := make(chan struct{})
	busy := time.AfterFunc(abortAfter, func() {
		defer close(aborted)
		abort()
	})
	_, _ = io.Copy(io.Discard, p.Server)
	if !busy.Stop() {
		<-aborted
	}
}

// End has it say why to the client when ctx ends. The first reason counts.
func (p *Pump) End(why *wire.Error) { p.farewell.CompareAndSwap(nil, why) }

// Why is what End was given first; nil if it was not called.
func (p *Pump) Why() *wire.Error { return p.farewell.Load() }

// Traffic is how many bytes have come from the client, and how many it was sent.
func (p *Pump) Traffic() (received, sent uint64) { return p.received.Load(), p.sent.Load() }

// wake has down look why.
func (p *Pump) wake() {
	_ = p.Client.SetWriteDeadline(time.Now().Add(farewellMost))
	_ = p.Server.SetReadDeadline(time.Unix(1, 0))
}

// up copies from client to server. What a server does not take any more is read all the same:
// unread it would take a last word to the client with it.
func (p *Pump) up() {
	b := make([]byte, pumpSize)
	var f frames
	for gone := false; ; {
		n, err := p.Client.Read(b)
		p.received.Add(uint64(n))
		if f.feed(b[:n]) >= 0 && f.last == wire.MsgTerminate {
			p.goodbye.Store(true)
		}
		if n > 0 && !gone {
			_, werr := p.Server.Write(b[:n])
			gone = werr != nil // down hears why
		}
		if err != nil {
			p.left.Store(true)
			_ = p.Server.SetReadDeadline(time.Unix(1, 0))
			return
		}
	}
}

// down copies from server to client. over tells that the server's process is gone.
func (p *Pump) down() (why string, over bool) {
	if !p.tell(p.Welcome) {
		return "client lost", false
	}
	b := make([]byte, pumpSize)
	var f frames
	for patient := true; ; {
		n, err := p.Server.Read(b)
		part, whole := b[:n], f.feed(b[:n])
		last := p.farewell.Load()
		if last != nil && whole >= 0 {
			part = append(part[:whole:whole], wire.AppendError(nil, last)...)
		}
		if !p.tell(part) {
			return "client lost", false
		}
		late := errors.Is(err, os.ErrDeadlineExceeded)
		switch {
		case last != nil && (whole >= 0 || late && !patient):
			return last.Message, false
		case p.left.Load():
			return "client has left", false
		case err == nil:
		case late: // in the middle of a message: its rest is to come
			patient = false
			_ = p.Server.SetReadDeadline(time.Now().Add(farewellMost))
		default:
			return p.lost(&f), true
		}
	}
}

// lost tells the client that its server has ended, if nobody has.
func (p *Pump) lost(f *frames) (why string) {
	switch {
	case p.goodbye.Load():
		return "client has left"
	case f.last == wire.MsgErrorResponse: // no more came behind it: it was the last word
		return "server has ended it"
	case f.whole():
		p.tell(wire.AppendError(nil, session.Say("server_lost")))
	}
	return "server lost"
}

// tell writes to the client and reports whether it has taken it.
func (p *Pump) tell(b []byte) bool {
	if len(b) == 0 {
		return true
	}
	n, err := p.Client.Write(b)
	p.sent.Add(uint64(n))
	return err == nil
}

// halfClose tells a peer that there is no more to come.
func halfClose(conn net.Conn) {
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}

// frames follows the messages of one direction.
type frames struct {
	head   [5]byte
	nHead  int
	body   int  // bytes of the body to come
	last   byte // type of the last message that has begun; 0 = none has
	broken bool // this is no protocol: no end of a message can be told
}

// whole reports whether the last message has ended.
func (f *frames) whole() bool { return f.nHead == 0 && f.body == 0 && !f.broken }

// feed takes the next bytes and returns how many of them there are up to the last end of a
// message; -1 if no message ends in them. An end before the first of them counts.
func (f *frames) feed(b []byte) (whole int) {
	whole = -1
	for at := 0; !f.broken; {
		if f.whole() {
			whole = at
		}
		if at == len(b) {
			break
		}
		if f.body > 0 {
			n := min(f.body, len(b)-at)
			f.body, at = f.body-n, at+n
			continue
		}
		n := copy(f.head[f.nHead:], b[at:])
		f.nHead, at = f.nHead+n, at+n
		if f.nHead == len(f.head) {
			f.begin()
		}
	}
	return whole
}

// begin reads a message's head.
func (f *frames) begin() {
	length := int(uint32(f.head[1])<<24 | uint32(f.head[2])<<16 | uint32(f.head[3])<<8 | uint32(f.head[4]))
	f.last, f.nHead, f.body, f.broken = f.head[0], 0, length-4, length < 4
}
