// Azurite keeps its index in memory, and writes it to the disk every five seconds: what it has answered in the last ones is
// gone when it is killed, of which no real store may be guilty. Loaded before it, this writes the index before each answer to
// a request that may have changed something.
const fs = require("fs");
const http = require("http");
const Loki = require(require.resolve("lokijs", { paths: [process.argv[1]] }));

const indexes = new Set();

Loki.prototype.autosaveEnable = function () {
  indexes.add(this); // its own save, which is not done at once, could be of before the one that is done here
};

function save(index) {
  if (!index.autosaveDirty()) return;
  index.autosaveClearFlags();
  const aside = `${index.filename}.new`;
  fs.writeFileSync(aside, index.serialize());
  fs.renameSync(aside, index.filename);
}

const end = http.ServerResponse.prototype.end;
http.ServerResponse.prototype.end = function (...content) {
  if (this.req.method !== "GET" && this.req.method !== "HEAD") indexes.forEach(save);
  return end.apply(this, content);
};
