package scram

import (
	"testing"

	xdg "github.com/xdg-go/scram"
	"pgregory.net/rapid"
)

// password draws passwords that both sides prepare alike.
func password() *rapid.Generator[string] {
	return rapid.StringMatching(`[ -~]{1,20}|[a-zäöüßéñ]{1,20}|[あ-ん]{1,9}`)
}

func TestOtherClientWithOurServer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		right, wrong := password().Draw(t, "right"), password().Draw(t, "wrong")
		plus := rapid.Bool().Draw(t, "plus")
		v, err := NewVerifier(right, nil, 3)
		if err != nil {
			t.Fatal(err)
		}
		for _, try := range []string{right, wrong} {
			client, err := xdg.SHA256.NewClient("", try, "")
			if err != nil {
				t.Skip(err)
			}
			client.WithMinIterations(1) // more would make the test slow
			conv, mechanism, binding := client.NewConversation(), Mechanism, (*Binding)(nil)
			if plus {
				mechanism, binding = MechanismPlus, &Binding{"tls-server-end-point", []byte("hash")}
				conv = client.NewConversationWithChannelBinding(xdg.ChannelBinding{Type: xdg.ChannelBindingTLSServerEndpoint, Data: binding.Data})
			}
			server, err := NewServer(v, mechanism, binding)
			if err != nil {
				t.Fatal(err)
			}
			msg, err := conv.Step("")
			if err != nil {
				t.Fatal(err)
			}
			first, err := server.First([]byte(msg))
			if err != nil {
				t.Fatal(err)
			}
			if msg, err = conv.Step(string(first)); err != nil {
				t.Fatal(err)
			}
			last, err := server.Final([]byte(msg))
			if same := Prepare(try) == Prepare(right); (err == nil) != same {
				t.Fatalf("password %q for %q: %v", try, right, err)
			}
			if err != nil {
				continue
			}
			if _, err = conv.Step(string(last)); err != nil || !conv.Valid() {
				t.Fatal(err)
			}
		}
	})
}

func TestOurClientWithOtherServer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		right, wrong := password().Draw(t, "right"), password().Draw(t, "wrong")
		v, err := NewVerifier(right, nil, 3)
		if err != nil {
			t.Fatal(err)
		}
		server, err := xdg.SHA256.NewServer(func(string) (xdg.StoredCredentials, error) {
			return xdg.StoredCredentials{
				KeyFactors: xdg.KeyFactors{Salt: string(v.Salt), Iters: v.Iterations},
				StoredKey:  v.StoredKey[:], ServerKey: v.ServerKey[:],
			}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, try := range []string{right, wrong} {
			conv, client := server.NewConversation(), NewClient(nil)
			first, err := conv.Step(string(client.First()))
			if err != nil {
				t.Fatal(err)
			}
			salt, iterations, err := client.Challenge([]byte(first))
			if err != nil {
				t.Fatal(err)
			}
			keys, err := Derive(try, salt, iterations)
			if err != nil {
				t.Fatal(err)
			}
			last, err := conv.Step(string(client.Respond(keys)))
			if same := Prepare(try) == Prepare(right); (err == nil) != same {
				t.Fatalf("password %q for %q: %v", try, right, err)
			}
			if verified := client.Verify([]byte(last)); (verified == nil) != (err == nil) {
				t.Fatal(verified)
			}
		}
	})
}
