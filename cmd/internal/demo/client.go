package demo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	patience   = 10 * time.Second // for a connection, a statement, a goodbye; nothing comes near it
	loginsOnce = 8                // logins at once: they cost CPU on both sides
	accounts   = 1000
)

// client is one session through pgweir. It is used by one goroutine at a time.
type client struct {
	conn   *pgx.Conn
	random *rand.Rand
}

// crowd is all clients: those that have nothing to do stand in line, so that all of them
// take part.
type crowd struct{ free chan *client }

// newCrowd connects all clients.
func newCrowd(ctx context.Context, url string) (*crowd, error) {
	c := &crowd{free: make(chan *client, clients)}
	places := make(chan struct{}, loginsOnce)
	errs := make([]error, clients)
	var work sync.WaitGroup
	for i := range clients {
		work.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			conn, err := connect(ctx, url, fmt.Sprintf("demo-%d", i))
			if err != nil {
				errs[i] = err
				return
			}
			c.free <- &client{conn: conn, random: rand.New(rand.NewPCG(1, uint64(i)))}
		})
	}
	work.Wait()
	for _, err := range errs {
		if err != nil { // one of them says it
			c.close()
			return nil, fmt.Errorf("a client could not connect through pgweir: %w", err)
		}
	}
	return c, nil
}

// close ends all sessions that nobody uses.
func (c *crowd) close() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		select {
		case one := <-c.free:
			_ = one.conn.Close(ctx) // the work is done; a lost goodbye loses nothing
		default:
			return
		}
	}
}

// connect opens a session. What the caller's environment says in PG* variables is for other
// databases.
func connect(ctx context.Context, url, name string) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.RuntimeParams = map[string]string{"application_name": name}
	config.ValidateConnect = nil
	config.MinProtocolVersion, config.MaxProtocolVersion = "3.0", "3.0"
	config.ConnectTimeout = patience
	return pgx.ConnectConfig(ctx, config)
}

// transfer moves money between two accounts: a transaction of four round trips, with
// prepared statements. Accounts are taken in the order of their numbers, against deadlocks.
func transfer(ctx context.Context, c *client) error {
	a := c.random.IntN(accounts - 1)
	b := a + 1 + c.random.IntN(accounts-1-a)
	amount := c.random.IntN(201) - 100
	return pgx.BeginFunc(ctx, c.conn, func(tx pgx.Tx) error {
		for _, step := range []struct{ id, amount int }{{a, -amount}, {b, amount}} {
			tag, err := tx.Exec(ctx, "update account set balance = balance + $1 where id = $2", step.amount, step.id)
			if err != nil {
				return err
			}
			if tag.RowsAffected() != 1 {
				return errors.New("an account was not found")
			}
		}
		return nil
	})
}

// sleep binds a server for exactly the same time on any machine, and costs no CPU.
func sleep(ctx context.Context, c *client) error {
	_, err := c.conn.Exec(ctx, fmt.Sprintf("select pg_sleep(%g)", nap.Seconds()))
	return err
}
