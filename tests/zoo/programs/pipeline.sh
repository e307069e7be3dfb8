# A pipeline in bash, with traps, a background child, a here document and a subshell's status.
set -u
longer=${1:-1}
trap 'echo trapped USR1' USR1
trap 'echo left with $?' EXIT
(sleep 1; kill -USR1 $$) &
child=$!
seq 1 $((60000 * longer)) | while read -r n; do echo $((n * n % 9973)); done | sort -n | uniq -c | awk '{ sum += $1 * $2 } END { print sum }'
echo "${PIPESTATUS[*]}"
wait $child
echo "child $?"
wait $child 2>/dev/null
total=0
for i in $(seq 1 $((40 * longer))); do
    piece=$(cat <<EOF
$i $(printf '%d' $((i * i)))
EOF
)
    total=$((total + ${piece#* }))
    sleep 0.03
done
echo "total $total"
(exit 5)
