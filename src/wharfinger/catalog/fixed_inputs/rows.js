let state = 12345;
const random = () => (state = (state * 1103515245 + 12345) & 0x7fffffff) / 0x7fffffff;
const rows = Array.from({length: 3000}, (_, i) => ({id: i, name: 'n' + Math.floor(random() * 1e6),
  tags: [i % 7, i % 11]}));
for (let done = 1; ; done++) {
  for (let i = 0; i < 4; i++) {
    const copy = JSON.parse(JSON.stringify(rows));
    copy.sort((a, b) => a.name < b.name ? -1 : 1);
  }
  require('fs').writeSync(1, 'done=' + done + '\n');
}
