#!/bin/sh
# The most popular items that a user does not have yet, by sort and awk alone: no Python, no Parquet. In a config:
#
#   name: popular
#   type: command
#   params: {format: csv, command: [sh, popular.sh, "{train}", "{users}", "{candidates}", "{out}", "{n}"]}
#
# A sixth argument, any text: items that the user has are listed too. Ids have no commas or quotes.
set -eu
train=$1 users=$2 candidates=$3 out=$4 n=$5 all=${6:-}

# Items by the number of users who have them; equal ones in the order of the file.
awk -F, '
    FNR == 1 { next }
    file == "train" { count[$2]++ }
    file == "candidates" { print count[$1] + 0 "," FNR "," $1 }
' file=train "$train" file=candidates "$candidates" | sort -t, -k1,1nr -k2,2n |
awk -F, -v n="$n" -v all="$all" '
    BEGIN { print "user,item,rank" }
    file == "items" { item[FNR] = $3; items = FNR; next }
    FNR == 1 { next }
    file == "train" { has[$1, $2] = 1 }
    file == "users" {
        rank = 1
        for (i = 1; i <= items && rank <= n; i++)
            if (all || !(($1, item[i]) in has)) print $1 "," item[i] "," rank++
    }
' file=items - file=train "$train" file=users "$users" > "$out"
