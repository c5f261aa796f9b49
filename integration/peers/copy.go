package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
)

const (
	megabyte = 1e6
	// rowBytes is what a row of copyStatement takes on the wire: 100 characters and a
	// line feed, behind the five bytes of CopyData.
	rowBytes = 106
	// readSize is the client's buffer: large, so that the client is not what is measured.
	readSize = 256 * 1024
	// answerBound is how long a client waits for the end of its COPY at most.
	answerBound = 5 * time.Minute
)

// copyStatement sends about mb megabytes.
func copyStatement(mb int) string {
	return fmt.Sprintf("COPY (SELECT repeat('x', 100) FROM generate_series(1, %d)) TO STDOUT", int64(mb)*megabyte/rowBytes)
}

// measureCopy reads a COPY as fast as it comes.
func measureCopy(ctx context.Context, l *lab, e *experiment) error {
	poolers, err := l.beginAll(ctx, l.cluster.Endpoint, nil)
	if err != nil {
		return err
	}
	defer l.endPoolers()
	for _, p := range poolers {
		if _, err := copyOut(p, min(l.copyMB, 10), nil); err != nil {
			return fmt.Errorf("%s: %w", p.label, err)
		}
	}
	cell := fmt.Sprintf("%d MB", l.copyMB)
	return l.inTurns(ctx, l.roundsOr(5), poolers, func(_ int, p *pooler) error {
		before, err := p.cpu()
		if err != nil {
			return err
		}
		began := time.Now()
		sum, err := copyOut(p, l.copyMB, nil)
		if err != nil {
			return err
		}
		took := time.Since(began)
		after, err := p.cpu()
		if err != nil {
			return err
		}
		mb := float64(sum) / megabyte
		if p.proc != nil {
			e.add(cell, cpuPerMB, p.label, microseconds(after-before)/mb)
		}
		e.add(cell, "MB/s", p.label, mb/took.Seconds())
		return nil
	})
}

// copyOut logs in, reads one COPY of mb megabytes and returns the bytes received. after
// is drain's.
func copyOut(p *pooler, mb int, after func(sum int64)) (int64, error) {
	c, err := p.dial(nil, answerBound)
	if err != nil {
		return 0, err
	}
	defer c.close()
	if err := c.send(&pgproto3.Query{String: copyStatement(mb)}); err != nil {
		return 0, err
	}
	sum, err := c.drain(make([]byte, readSize), after)
	if least := int64(mb) * megabyte * 9 / 10; err == nil && sum < least {
		err = fmt.Errorf("the COPY ended after %d bytes", sum)
	}
	return sum, err
}
