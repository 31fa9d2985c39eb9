import ava from 'ava';

const waitMs = 30_000;

/** Something that keeps the process alive, in Node's own list of them, which has no types. */
type Handle = {
  constructor: { name: string };
  spawnfile?: string;
  remotePort?: number;
  localPort?: number;
  pid?: number;
};

/** Reports what keeps this process alive half a minute after its last test. AVA fails it after four minutes, without saying why. */
export function reportLeak(): void {
  ava.after.always('what keeps the process alive is reported', () => {
    setTimeout(() => {
      const { _getActiveHandles: handles } = process as unknown as { _getActiveHandles: () => Handle[] };
      const shown = handles().map(({ constructor: { name }, spawnfile, pid, remotePort, localPort }) =>
        [name, spawnfile, pid, localPort, remotePort].filter((part) => part !== undefined).join(' '),
      );
      console.error(`still alive after its tests: ${process.getActiveResourcesInfo().join(', ')}; ${shown.join(', ')}`);
    }, waitMs).unref();
  });
}
