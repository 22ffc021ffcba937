// Fetches a file over and over, or serves a directory.
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
)

func main() {
	if os.Args[1] == "serve" {
		fmt.Fprintln(os.Stderr, http.ListenAndServe(os.Args[2], http.FileServer(http.Dir(os.Args[3]))))
		os.Exit(1)
	}
	times, _ := strconv.Atoi(os.Args[4])
	for turn := 0; turn < times; turn++ {
		answer, err := http.Get(os.Args[2])
		if err == nil {
			var body []byte
			body, err = io.ReadAll(answer.Body)
			answer.Body.Close()
			if err == nil {
				err = os.WriteFile(os.Args[3], body, 0o644)
			}
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}
