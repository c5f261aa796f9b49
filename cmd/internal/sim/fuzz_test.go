package sim

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/wiretest"
)

// FuzzSessions plays whole sessions in which a client says anything, and with lies servers
// say anything, too. With honest servers all other clients must be told what they would be
// told without it, and no trace of it may be left on a server. With servers that lie nothing
// may panic, and slots, connections and sessions must add up, meanwhile and at the end.
func FuzzSessions(f *testing.F) {
	lie := func(at, length byte, text string) []byte { return append([]byte{at, length, byte(len(text))}, text...) }
	for seed := range int64(6) {
		var says []byte
		for _, s := range wiretest.Script(rand.New(rand.NewPCG(uint64(seed), 1)), wiretest.ScriptOptions{Client: "h"}) {
			if len(says) < 600 {
				says = append(says, s.Bytes...)
			}
		}
		f.Add(seed, says, []byte(nil))
		f.Add(seed, says, lie(3, 1, string(wire.AppendReadyForQuery(nil, wire.InTransaction))))
		f.Add(seed, says, lie(9, 2|dropsRest, "\x00\x00"))
	}
	f.Add(int64(7), append(wire.AppendQuery(nil, "copy t from stdin"), "d\xff\xff\xff\xff"...), lie(0, 1|cuts, "E\x00\x00\x00\x05\x00"))
	f.Fuzz(func(t *testing.T, seed int64, says, lies []byte) {
		rnd := rand.New(rand.NewPCG(uint64(seed), 2))
		o := RandomOptions(rnd)
		o.Clients = min(o.Clients, 3)
		w := newWorld(seed, rnd, o)
		w.besiege(says)
		if len(lies) > 0 {
			w.twist = (&liar{lies: lies}).twist
			if err := w.storm(); err != nil {
				t.Fatal(err)
			}
			return
		}
		if err := w.play(); err != nil {
			t.Fatal(err)
		}
	})
}

// besiege adds a client that says these bytes, in pieces, and leaves.
func (w *world) besiege(says []byte) {
	var steps []wiretest.Step
	for _, piece := range wiretest.Split(w.rnd, says) {
		steps = append(steps, wiretest.Step{Op: wiretest.OpSend, Bytes: piece})
		if w.rnd.IntN(8) == 0 {
			steps = append(steps, wiretest.Step{Op: wiretest.OpCancel})
		}
	}
	switch w.rnd.IntN(3) {
	case 0:
		steps = append(steps, wiretest.Step{Op: wiretest.OpClose})
	case 1:
		steps = append(steps, wiretest.Step{Op: wiretest.OpHalfClose})
	}
	c := &client{w: w, id: len(w.clients), hostile: true, player: wiretest.NewPlayer(steps)}
	w.clients = append(w.clients, c)
	w.after(w.delay(5_000_000), c.login)
}

// liar changes what servers say. Each lie is for how many writes it waits, how it is put, how
// long it is, and what it says.
type liar struct {
	lies []byte
	wait int
	due  bool
}

// How a lie is put into a write: before its last messages, as many as there are in manyMask;
// these may be dropped, and so may bytes before it.
const (
	manyMask  = 7
	dropsRest = 8
	cuts      = 16 // one byte, and one for each of cutUnit
	cutUnit   = 32
)

func (l *liar) twist(b []byte) []byte {
	if len(b) == 0 || len(l.lies) < 3 {
		return b
	}
	if !l.due {
		l.wait, l.due = int(l.lies[0]), true
	}
	if l.wait > 0 {
		l.wait--
		return b
	}
	how, n := int(l.lies[1]), int(l.lies[2])
	l.lies, l.due = l.lies[3:], false
	says := l.lies[:min(n, len(l.lies))]
	l.lies = l.lies[len(says):]
	msgs, _ := wiretest.Messages(b)
	at := len(b)
	for _, m := range msgs[max(0, len(msgs)-how&manyMask):] {
		at -= wire.HeaderLen + len(m.Body)
	}
	head, rest := b[:at:at], b[at:]
	if how&cuts != 0 {
		head = head[:max(0, len(head)-1-how/cutUnit):max(0, len(head)-1-how/cutUnit)]
	}
	if how&dropsRest != 0 {
		rest = nil
	}
	return append(append(head, says...), rest...)
}

// storm plays a world of servers that lie. Nobody can tell what clients should be told; when
// it has gone on for long enough all leave, and the servers end.
func (w *world) storm() error {
	for !w.done() && w.step(30_000_000_000) {
		if w.fault != nil || w.seq > maxEvents {
			return errors.Join(w.fault, fmt.Errorf("%d events", w.seq))
		}
	}
	for _, c := range w.clients {
		if c.conn != nil && !c.ended {
			c.closed = true
			c.conn.hangUp()
			c.conn.drop()
		}
	}
	w.o.Minimum, w.o.DialFailures = 0, 0
	w.reload(false)
	for range 3 { // a client that has just left may have asked for another
		until := w.now + 20_000_000_000
		for w.step(until) {
			if w.fault != nil || w.seq > maxEvents {
				return errors.Join(w.fault, fmt.Errorf("%d events", w.seq))
			}
		}
		for _, be := range w.backends {
			be.b.Crash()
			be.run()
		}
	}
	for until := w.now + 20_000_000_000; w.step(until); {
		if w.fault != nil {
			return w.fault
		}
	}
	return w.atRest()
}

// atRest checks that everything has been given back.
func (w *world) atRest() error {
	if err := w.core.Check(); err != nil {
		return fmt.Errorf("permits: %w", err)
	}
	gate, set := w.core.Gate().Stats(), w.core.Set().Stats()
	if gate.Running != 0 || gate.Waiting != 0 || gate.Sessions != 0 || w.core.Clients() != 0 {
		return fmt.Errorf("at rest %d tickets are out, %d sessions keep a server, %d wait, %d are left\n%s",
			gate.Running, gate.Sessions, gate.Waiting, w.core.Clients(), w.servers())
	}
	if set.Busy != 0 || set.Closing != 0 || set.Held != 0 || set.Dialling != 0 || set.Idle != w.opened {
		return fmt.Errorf("at rest the pool holds %+v, and %d are open\n%s", set, w.opened, w.servers())
	}
	return nil
}

// Lies are told in their order, each once.
func TestLiar(t *testing.T) {
	l := &liar{lies: []byte{1, 1, 3, 'a', 'b', 'c', 0, 1 | dropsRest, 0, 0, 2 | cuts | cutUnit, 1, 'd', 0, 0, 9, 'e'}}
	two := append(wire.AppendCommandComplete(nil, "X"), wire.AppendReadyForQuery(nil, wire.Idle)...)
	var got []string
	for range 6 {
		got = append(got, string(l.twist(bytes.Clone(two))))
	}
	c, z := string(two[:7]), string(two[7:])
	want := []string{c + z, c + "abc" + z, c, "d" + c + z, c + z + "e", c + z}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// A seed of each kind, with lies drawn at random: what the fuzzer begins with, and many more.
func TestStorms(t *testing.T) {
	n := max(1, *seeds/10)
	for seed := *first; seed < *first+int64(n); seed++ {
		rnd := rand.New(rand.NewPCG(uint64(seed), 3))
		w := newWorld(seed, rnd, RandomOptions(rnd))
		w.besiege(garbled(rnd))
		honest := rnd.IntN(2) == 0
		var err error
		if honest {
			err = w.play()
		} else {
			w.twist = (&liar{lies: randomLies(rnd)}).twist
			err = w.storm()
		}
		if err != nil {
			t.Fatalf("seed %d, honest servers %v: %v", seed, honest, err)
		}
	}
}

// garbled is a script with some bytes changed.
func garbled(rnd *rand.Rand) (says []byte) {
	for _, s := range wiretest.Script(rnd, wiretest.ScriptOptions{Client: "h"}) {
		says = append(says, s.Bytes...)
	}
	for range rnd.IntN(4) {
		if at := rnd.IntN(len(says) + 1); at < len(says) {
			says[at] = byte(rnd.Uint32())
		}
	}
	return says
}

// randomLies are messages of any type and length, and bytes that are none.
func randomLies(rnd *rand.Rand) (lies []byte) {
	types := "123ACDEGHIKNRSTVWZcdnstv~"
	for range 1 + rnd.IntN(5) {
		var says []byte
		for range rnd.IntN(3) {
			body := make([]byte, rnd.IntN(12))
			for i := range body {
				body[i] = byte(rnd.Uint32() >> (rnd.IntN(2) * 28)) // zeros are frequent
			}
			if rnd.IntN(3) == 0 {
				body = []byte{"ITEX"[rnd.IntN(4)]}
			}
			says = wire.AppendMessage(says, types[rnd.IntN(len(types))], body)
		}
		if rnd.IntN(5) == 0 {
			says = binary.BigEndian.AppendUint32(append(says, 'D'), rnd.Uint32())
		}
		says = says[:min(len(says), 255)]
		lies = append(lies, byte(rnd.IntN(12)), byte(rnd.Uint32()&rnd.Uint32()), byte(len(says)))
		lies = append(lies, says...)
	}
	return lies
}
