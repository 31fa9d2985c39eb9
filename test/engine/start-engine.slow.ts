import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import test from 'ava';
import { untilEnded } from '../stack/earlier-process.ts';
import { skipTest } from '../support/skip-test.ts';
import { provideEngine } from './provide-engine.ts';

const module = new URL('start-engine.ts', import.meta.url).href;
const files = await provideEngine().catch((error: Error) => error);
const title = 'an engine ends with the process that started it, even if that is killed while the engine is frozen';

if (files instanceof Error) skipTest(test, { title, reason: files.message });
else {
  test(title, async (t) => {
    const program = `
      import { startEngine } from '${module}';
      const files = ${JSON.stringify(files)};
      const engine = await startEngine({ files, model: 'chat', slots: 1, contextTokens: 512 });
      await engine.kill('SIGSTOP');
      console.log(engine.pid, engine.command);
      setInterval(() => {}, 1_000);`;
    const starter = spawn(process.execPath, ['--input-type=module', '--eval', program], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const [line] = (await once(createInterface({ input: starter.stdout }), 'line')) as [string];
    const [pid, command = ''] = line.split(' ');
    starter.kill('SIGKILL');
    await untilEnded({ pid: Number(pid), command });
    t.pass();
  });
}
