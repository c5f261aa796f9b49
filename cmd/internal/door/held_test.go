package door

import (
	"bytes"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pgweir/pgweir/wire"
)

// told is a connection that remembers what was written and when it was closed.
type told struct {
	net.Conn
	got    bytes.Buffer
	closed time.Time
}

func (c *told) Write(b []byte) (int, error)  { return c.got.Write(b) }
func (c *told) SetDeadline(time.Time) error  { return nil }
func (c *told) Close() error                 { c.closed = time.Now(); return nil }
func (c *told) after(from time.Time) float64 { return c.closed.Sub(from).Seconds() }
func (c *told) open() bool                   { return c.closed.IsZero() && c.got.Len() == 0 }
func (c *told) was(e *wire.Error) bool       { return bytes.Equal(c.got.Bytes(), wire.AppendError(nil, e)) }

func newTold(n int) (list []*told) {
	for range n {
		list = append(list, &told{})
	}
	return list
}

// Who is held back is told when its time has come, in order; no more are than may be.
func TestHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h Held
		begin, e, list := time.Now(), Blocked(time.Second), newTold(5)
		if h.Hold(list[0], e, time.Second) {
			t.Fatal("held although nobody may be")
		}
		h.limit(3)
		for i, c := range list[:4] {
			if ok := h.Hold(c, e, time.Second); ok != (i < 3) || h.Full() != (i >= 2) {
				t.Fatalf("%d: held %v, full %v", i, ok, h.Full())
			}
			<-time.After(200 * time.Millisecond)
		}
		<-time.After(300 * time.Millisecond) // 1.1 s after the first came, and 0.9 s after the second
		synctest.Wait()
		if !list[0].was(e) || list[0].after(begin) != 1 || !list[1].open() || !list[3].open() || h.Full() {
			t.Errorf("the first was told after %v s, the second is open: %v", list[0].after(begin), list[1].open())
		}
		if !h.Hold(list[4], e, time.Second) {
			t.Error("no room for another one")
		}
		<-time.After(time.Second)
		synctest.Wait()
		for i, want := range map[int]float64{1: 1.2, 2: 1.4, 4: 2.1} {
			if !list[i].was(e) || list[i].after(begin) != want {
				t.Errorf("%d was told %q after %v s, want %v", i, list[i].got.String(), list[i].after(begin), want)
			}
		}
		// Who is due sooner is told sooner.
		late, soon := &told{}, &told{}
		from := time.Now()
		h.Hold(late, e, 5*time.Second)
		h.Hold(soon, e, time.Second)
		<-time.After(6 * time.Second)
		synctest.Wait()
		if late.after(from) != 5 || soon.after(from) != 1 {
			t.Errorf("told after %v and %v s", late.after(from), soon.after(from))
		}
		// And once more from an empty queue, until the end.
		last := newTold(2)
		h.Hold(last[0], e, time.Second)
		h.End()
		if !last[0].was(e) || last[0].after(begin) != time.Since(begin).Seconds() || h.Hold(last[1], e, time.Second) {
			t.Error("somebody is held back after the end")
		}
	})
}
