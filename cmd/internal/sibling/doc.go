// Package sibling joins the pgweir processes that share a TCP port by
// SO_REUSEPORT. The kernel gives a CancelRequest's connection to any of them, so
// the key of a session names the process that serves it, and a process that gets
// another's request forwards it.
//
// A process takes the lowest free number from 1 to [MaxProcess] by binding an
// abstract Unix socket that is named after the group and the number. The bind is
// the lock; the kernel frees the name when the process ends, however it ends.
// Abstract names belong to a network namespace, as ports do: who can share the port
// can see the number, and a container with a network of its own has its own numbers.
//
// On that socket a sibling sends one CancelRequest, as a client does on the TCP
// port. The receiver closes the connection when it has dealt with the request, and
// at once when it gets anything else. What authorizes a request is its secret, as on
// the TCP port. Abstract names have no permissions, so both sides also ask the kernel
// who the other is, and nothing is sent to or taken from another user: sharing a
// port requires the same user anyway, and the secret stays with the processes that
// know it. What other users of the machine can do is occupy numbers.
package sibling
