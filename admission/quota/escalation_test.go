package quota

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func party1() Party { return Party{Address: netip.MustParseAddr("10.0.0.1"), Role: "app"} }

// hammer lets a party be refused n times, every step ns, each too early, and returns the
// last sentence and the time of it.
func hammer(e *Escalation, now int64, who Party, most Action, n int, step int64) (Sentence, int64) {
	var s Sentence
	for i := range n {
		if i > 0 {
			now += step
		}
		s = e.Refused(now, who, most, true, 100*ms)
	}
	return s, now
}

func TestWhoWaitsIsNeverPunished(t *testing.T) {
	e := NewEscalation()
	for i := range int64(10_000) {
		if s := e.Refused(i*ms, party1(), Block, false, 100*ms); s != (Sentence{}) {
			t.Fatalf("refusal %d: %+v", i, s)
		}
	}
	if st := e.Stats(sec); st.Parties != 0 {
		t.Errorf("%d parties remembered who have done nothing", st.Parties)
	}
}

func TestTheTwentiethViolationDelays(t *testing.T) {
	e := NewEscalation()
	s, now := hammer(e, sec, party1(), Delay, 19, 10*ms)
	if s.Hold != 0 {
		t.Fatalf("held back for %d ns after 19", s.Hold)
	}
	if s, now = hammer(e, now, party1(), Delay, 1, 0); s.Hold != 100*ms {
		t.Fatalf("the twentieth is held back for %d ns, want the 100 ms of its hint", s.Hold)
	}
	if s := e.Refused(now, party1(), Delay, false, 3*sec); s.Hold != sec {
		t.Errorf("a hint of 3 s: held back for %d ns, want 1 s", s.Hold)
	}
	for i, want := range []int64{200, 400, 800, 1600, 3200, 5000, 5000} {
		if s, now = hammer(e, now, party1(), Delay, 20, ms); s.Hold != want*ms {
			t.Errorf("after %d more: held back for %d ms, want %d", 20*(i+1), s.Hold/ms, want)
		}
	}
	if st := e.Stats(now); s.Blocked || st.Blocked != 0 || st.Blocks != 0 || st.Violations != 160 {
		t.Errorf("escalation = delay blocks: %+v %+v", s, st)
	}
}

func TestSlowViolationsAreNone(t *testing.T) {
	e := NewEscalation()
	if s, _ := hammer(e, sec, party1(), Block, 500, 600*ms); s.Hold != 0 { // 17 in 10 s
		t.Errorf("held back for %d ns", s.Hold)
	}
}

// A hundred violations more within a minute block for 10 s; each time they come again within
// the hour it is twice as long, up to 5 minutes, and from the third on somebody is told.
func TestBlocks(t *testing.T) {
	e, who := NewEscalation(), party1()
	_, now := hammer(e, sec, who, Block, 20, ms)
	for i, want := range []int64{10, 20, 40, 80, 160, 300, 300, 300} {
		s, at := hammer(e, now, who, Block, 99, ms)
		if s.Blocked || s.Hold == 0 {
			t.Fatalf("block %d comes too early, or nothing is held back before it: %+v", i, s)
		}
		s, at = hammer(e, at, who, Block, 1, 0)
		if !s.Blocked || !s.New || s.Block.Until-s.Block.Since != want*sec || s.Alarm != (i >= 2) {
			t.Fatalf("block %d: %+v, want %d s, alarm %v", i, s, want, i >= 2)
		}
		if again := e.Refused(at, who, Block, false, 100*ms); !again.Blocked || again.New {
			t.Errorf("another session of the party: %+v", again)
		}
		if delayed := e.Refused(at, who, Delay, false, 100*ms); delayed.Blocked || delayed.Hold == 0 {
			t.Errorf("a rule that may only delay: %+v", delayed)
		}
		if other := e.Refused(at, Party{who.Address, "other"}, Block, false, 100*ms); other != (Sentence{}) {
			t.Errorf("another role: %+v", other)
		}
		var list []Blocked
		e.Blocks(at, func(b Blocked) bool { list = append(list, b); return true })
		if len(list) != 1 || list[0].Party != who || list[0].Level != levelBlock || e.Stats(at).Blocked != 1 {
			t.Errorf("blocks: %+v", list)
		}
		now = s.Block.Until
		if s := e.Refused(now, who, Block, false, 100*ms); s.Blocked {
			t.Errorf("blocked at the end of block %d", i)
		}
	}
	if n := e.Stats(now).Blocks; n != 8 {
		t.Errorf("%d blocks counted, want 8", n)
	}
	e.Forget()
	if s, _ := hammer(e, now, who, Block, 1, 0); s != (Sentence{}) || e.Stats(now).Blocked != 0 {
		t.Errorf("after Forget: %+v", s)
	}
}

// A level is forgiven for each 30 s without a violation, also while statements are refused;
// a block is no time without one.
func TestLevelsAreForgiven(t *testing.T) {
	e, who := NewEscalation(), party1()
	s, _ := hammer(e, sec, who, Block, 120, ms)
	if !s.Blocked {
		t.Fatal("not blocked")
	}
	end := s.Block.Until
	if s := e.Refused(end+calm-1, who, Block, false, 100*ms); s.Hold == 0 || e.byName[who].Level != levelBlock {
		t.Errorf("29.9 s after the block: %+v", s)
	}
	if e.Refused(end+calm, who, Block, false, ms); e.byName[who].Level != levelDelay {
		t.Error("30 s after the block the level is the same")
	}
	if s := e.Refused(end+2*calm, who, Block, false, ms); s.Hold != 0 || e.byName[who].Level != levelAnswer {
		t.Errorf("after a minute: %+v", s)
	}
	if s, _ := hammer(e, end+2*calm, who, Block, 19, ms); s.Hold != 0 {
		t.Error("old violations count again")
	}
}

// Blocks of more than an hour ago make the next one no longer.
func TestOldBlocksAreForgotten(t *testing.T) {
	e, who := NewEscalation(), party1()
	now := sec
	for range 4 {
		s, at := hammer(e, now, who, Block, 120, ms)
		if !s.Blocked || s.Block.Until-s.Block.Since != blockFirst || s.Alarm {
			t.Fatalf("%+v", s)
		}
		now = at + blockMemory
	}
	n := 0
	e.Blocks(now, func(Blocked) bool { n++; return true })
	if n != 0 {
		t.Error("a block of more than an hour ago is listed")
	}
}

// However many parties come, so many are remembered, and those that are blocked longest.
func TestPartiesAreBounded(t *testing.T) {
	e, bad := NewEscalation(), party1()
	s, now := hammer(e, sec, bad, Block, 120, ms)
	if !s.Blocked {
		t.Fatal("not blocked")
	}
	for i := range 3 * maxParties {
		e.Refused(now, Party{Role: fmt.Sprint(i)}, Block, true, ms)
	}
	if len(e.list) != maxParties || len(e.byName) != maxParties {
		t.Errorf("%d parties, %d names", len(e.list), len(e.byName))
	}
	if s := e.Refused(now, bad, Block, false, ms); !s.Blocked {
		t.Error("the one that is blocked was forgotten")
	}
}

func TestWindowAgainstAList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var w window
		var at []int64
		width := rapid.SampledFrom([]int64{delayWindow, blockWindow}).Draw(t, "width")
		now := rapid.Int64Range(0, 1<<50).Draw(t, "start")
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			now += rapid.Int64Range(0, width/5).Draw(t, "step")
			at = append(at, now)
			least, most := 0, 0 // a step is counted whole or not at all
			for _, e := range at {
				if now-e < width-width/steps {
					least++
				}
				if now-e < width {
					most++
				}
			}
			if got := w.add(now, width); got < least || got > most {
				t.Fatalf("%d in the window, want %d to %d", got, least, most)
			}
		}
	})
}

// Whatever happens, levels and times stay within their bounds, and nobody is blocked by
// fewer than 120 violations.
func TestEscalationInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e, who := NewEscalation(), party1()
		now, violations := rapid.Int64Range(0, 1<<50).Draw(t, "start"), 0
		for range rapid.IntRange(1, 300).Draw(t, "refusals") {
			now += rapid.SampledFrom([]int64{0, ms, 10 * ms, 100 * ms, sec, 20 * sec, 60 * sec, 3600 * sec}).Draw(t, "step")
			violated := rapid.IntRange(0, 9).Draw(t, "violated") > 0
			most := Action(rapid.IntRange(0, 2).Draw(t, "most"))
			wait := rapid.Int64Range(1, 100*sec).Draw(t, "wait")
			if violated && most != Answer {
				violations++
			}
			s := e.Refused(now, who, most, violated, wait)
			switch {
			case s.Hold < 0 || s.Hold > delayMost || s.Hold > 0 && s.Blocked:
				t.Fatalf("%+v", s)
			case most == Answer && s != (Sentence{}), most == Delay && s.Blocked:
				t.Fatalf("more than %s: %+v", most, s)
			case (s.Hold > 0) && violations < delayAfter, s.Blocked && violations < delayAfter+blockAfter:
				t.Fatalf("%+v after %d violations", s, violations)
			case s.Blocked && (s.Block.Until <= now || s.Block.Until > now+blockMost):
				t.Fatalf("blocked until %d at %d", s.Block.Until, now)
			}
		}
	})
}

func TestActionNames(t *testing.T) {
	for _, a := range []Action{Answer, Delay, Block} {
		text, err := a.MarshalText()
		var back Action
		if err != nil || back.UnmarshalText(text) != nil || back != a {
			t.Errorf("%s", a)
		}
	}
	var a Action
	if a.UnmarshalText([]byte("ban")) == nil || actions.String() != "unknown" {
		t.Error("unknown actions pass")
	}
}

func BenchmarkRefused(b *testing.B) {
	e, now := NewEscalation(), sec
	b.ReportAllocs()
	for b.Loop() {
		now += int64(time.Microsecond)
		e.Refused(now, party1(), Delay, true, 100*ms)
	}
}
