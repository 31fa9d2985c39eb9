import { Gauge, type Registry } from 'prom-client';

type GaugeOptions = {
  name: string;
  help: string;
  /** Called at each scrape. Undefined while the value is unknown. */
  read: () => number | undefined | Promise<number | undefined>;
};

/** Registers a gauge that is read at each scrape, and left out while its value is unknown. */
export function observeGauge(registry: Registry, { name, help, read }: GaugeOptions): void {
  new Gauge({
    name,
    help,
    registers: [registry],
    async collect() {
      const value = await read();
      this.remove(); // a gauge without a value reports 0
      if (value !== undefined) this.set(value);
    },
  });
}
