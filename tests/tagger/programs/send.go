// The same as send.c, in a language that makes its system calls without libc.
package main

import (
	"fmt"
	"net"
	"os"
	"strconv"
)

func main() {
	size, _ := strconv.Atoi(os.Args[3])
	chunk, _ := strconv.Atoi(os.Args[4])
	flows, _ := strconv.Atoi(os.Args[5])
	connection, err := net.Dial("tcp", net.JoinHostPort(os.Args[1], os.Args[2]))
	if err != nil {
		panic(err)
	}
	data := make([]byte, size)
	line := ""
	for i := 0; i < 3; i++ {
		line = fmt.Sprintf("%d\n", size-len(line))
	}
	copy(data, line)
	for ; flows > 0; flows-- {
		for at := 0; at < size; at += chunk {
			if _, err := connection.Write(data[at:min(at+chunk, size)]); err != nil {
				panic(err)
			}
		}
		if _, err := connection.Read(make([]byte, 1)); err != nil {
			panic(err)
		}
	}
}
