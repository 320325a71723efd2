my %count;
open my $file, '<', 'access.log' or die;
while (<$file>) {
    next unless m{^(\d+)\.\S+ .*"GET (/\w+)/\w+ HTTP/1\.1" (\d\d)\d (\d+)$};
    $count{"$1 $2 $3"} += $4;
}
print scalar(keys %count), "\n";
