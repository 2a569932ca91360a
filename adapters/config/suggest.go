package config

import "strings"

// suggest returns the candidate nearest to name, or "" if none is near. A candidate's last part
// alone counts too: "memory" is near "limits.memory".
func suggest(name string, candidates []string, separator string) string {
	nearest, least := "", max(2, len(name)/4)+1
	for _, candidate := range candidates {
		d := distance(name, candidate)
		if last := strings.LastIndex(candidate, separator); last >= 0 {
			mine := name[strings.LastIndex(name, separator)+1:]
			if mine == candidate[last+1:] {
				d = min(d, 1)
			}
		}
		if d < least {
			nearest, least = candidate, d
		}
	}
	return nearest
}

// distance counts the letters to insert, delete, change or swap to get from a to b.
func distance(a, b string) int {
	rows := [3][]int{make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)}
	for j := range rows[1] {
		rows[1][j] = j
	}
	for i := 1; i <= len(a); i++ {
		above, row := rows[1], rows[2]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(above[j]+1, row[j-1]+1, above[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], rows[0][j-2]+1)
			}
		}
		rows = [3][]int{above, row, rows[0]}
	}
	return rows[1][len(b)]
}
