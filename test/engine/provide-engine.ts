import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { provideFolder, providePython } from '../stack/python-environment.ts';

/** llama.cpp's server as a library, and what writes models for it. */
const packages = { xllamacpp: '2026.10.11549', gguf: '0.19.0', numpy: '2.4.6' };
const script = fileURLToPath(new URL('make-models.py', import.meta.url));
const makeWithinMs = 300_000;

/** A Python that can run the engine, and the folder of its models. */
export type EngineFiles = { python: string; models: string };

/**
 * Installs the engine and makes its models, unless that was done with the same versions and the same script. `onStep` is called before what
 * takes long. Throws if Python is missing and cannot be installed, or if its packages cannot.
 */
export async function provideEngine(onStep?: (step: string) => void): Promise<EngineFiles> {
  const python = await providePython({
    ...{ name: 'engine', packages, modules: Object.keys(packages) },
    ...(onStep && { onStep }),
  });
  const content = [readFileSync(script, 'utf8')];
  const models = await provideFolder({ name: 'engine-models', content }, async (folder) => {
    onStep?.('Making the models of the engine …');
    await mkdir(folder);
    await promisify(execFile)(python, [script, folder], { timeout: makeWithinMs });
  });
  return { python, models };
}

/** The file of one of its models. */
export function modelFile({ models }: EngineFiles, model: EngineModel): string {
  return join(models, `${model}.gguf`);
}

/** What `make-models.py` makes. */
export type EngineModel = 'chat' | 'slow' | 'tools' | 'late' | 'embed' | 'rank';
