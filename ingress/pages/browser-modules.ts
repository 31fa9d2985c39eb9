import { readFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import { posix, relative } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { parse } from 'es-module-lexer/js';

/** JavaScript that a browser can load, by the path under which other modules import it. */
type BrowserModules = ReadonlyMap<string, string>;

/**
 * Collects this module and all its direct and indirect imports for a browser: types are stripped, and each import becomes a relative path,
 * because browsers resolve no packages (decisions.md#console-modules-without-a-bundler). Our modules keep their path below `directory`;
 * those of packages are below `packages/`. The entry is the first. Throws for an import that does not resolve, or that leaves `directory`.
 */
export function collectBrowserModules({ directory, entry }: { directory: string; entry: string }): BrowserModules {
  const modules = new Map<string, string>();
  const pathOf = (url: string) => publicPath(fileURLToPath(url), directory);

  function collect(url: string): void {
    const path = pathOf(url);
    if (modules.has(path)) return;
    modules.set(path, ''); // a placeholder, so that import cycles end
    const code = withoutTypes(url);
    let written = '';
    let end = 0;
    for (const found of parse(code)[0]) {
      if (found.type !== 'static' && found.type !== 'reexport-star') continue;
      const imported = resolve(found.specifier, url);
      written += code.slice(end, found.start) + relativePath(path, pathOf(imported));
      end = found.end;
      collect(imported);
    }
    modules.set(path, written + code.slice(end));
  }

  collect(pathToFileURL(`${directory}/${entry}`).href);
  return modules;
}

/** Packages are resolved from this file, so that each is included once. */
function resolve(specifier: string, importer: string): string {
  return specifier.startsWith('.') ? new URL(specifier, importer).href : import.meta.resolve(specifier);
}

function withoutTypes(url: string): string {
  const code = readFileSync(fileURLToPath(url), 'utf8');
  return url.endsWith('.ts') ? withoutWarning(() => stripTypeScriptTypes(code)) : code;
}

/** Node reports this function as experimental, although it no longer does so for the same step when it runs a file. */
function withoutWarning<T>(run: () => T): T {
  const { emitWarning } = process;
  process.emitWarning = () => {};
  try {
    return run();
  } finally {
    process.emitWarning = emitWarning;
  }
}

const nodeModules = '/node_modules/';

function publicPath(file: string, directory: string): string {
  const ours = relative(directory, file);
  const packaged = file.lastIndexOf(nodeModules);
  if (packaged < 0 && ours.startsWith('..')) throw new Error(`${file} is not for browsers`);
  const path = packaged < 0 ? ours : `packages/${file.slice(packaged + nodeModules.length)}`;
  return path.replace(/\.(ts|mjs)$/, '.js');
}

function relativePath(from: string, to: string): string {
  const path = posix.relative(posix.dirname(from), to);
  return path.startsWith('.') ? path : `./${path}`;
}
