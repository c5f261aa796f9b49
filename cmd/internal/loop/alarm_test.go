package loop

import (
	"sync/atomic"
	"testing"
	"time"
)

// What is due later than nearby is not forgotten, also when it comes forward,
// and wakes nobody before.
func TestTimerDueLater(t *testing.T) {
	var fired atomic.Int64
	first := make(chan int64, 1)
	l, err := New(Options{Timer: func(now int64) int64 {
		if fired.Add(1) == 1 {
			return now + 3*nearby
		}
		select {
		case first <- now:
		default:
		}
		return Never
	}})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- l.Run() }()
	select {
	case <-first:
	case <-time.After(20 * time.Second):
		t.Error("the timer was not called")
	}
	l.Stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if n := l.Stats().Turns; n > 10 {
		t.Errorf("%d turns for one timer", n)
	}
}
