// Builds static/app.js and static/app.css from source/. Run it by `make dashboard`.
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { build } from "esbuild";

const files = (folder) =>
  readdirSync(folder)
    .map((name) => join(folder, name))
    .flatMap((path) => (statSync(path).isDirectory() ? files(path) : [path]));

// A test compares this digest with the sources, so that nobody forgets to build.
const digest = createHash("sha256");
for (const path of files("source").sort()) digest.update(path).update(readFileSync(path));
digest.update(readFileSync("package.json"));

await build({
  entryPoints: { app: "source/main.tsx", style: "source/style.css" },
  bundle: true,
  format: "esm",
  minify: true,
  target: ["es2022"],
  outdir: "static",
  legalComments: "none",
});
const preact = JSON.parse(readFileSync("node_modules/preact/package.json", "utf8"));
const licence = readFileSync("node_modules/preact/LICENSE", "utf8");
writeFileSync("static/LICENSES.txt", `app.js contains Preact ${preact.version}:\n\n${licence}`);
writeFileSync("static/sources.sha256", `${digest.digest("hex")}\n`);
