// The tools of the contract's application (outlast.testing.adapter_contract.shop), as eve's: the same effects, in the same files.
import { execFile } from "node:child_process";
import { appendFileSync, existsSync, realpathSync, writeFileSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { promisify } from "node:util";
import { z } from "zod";
import { durable } from "./outlast.js";

const sleep = (ms: number) => new Promise((done) => setTimeout(done, ms));

/** The session's directory, which all files of the project are linked from. */
function place(): string {
  return dirname(realpathSync("place"));
}

/** The outside world stands beside it. */
function effects(): string {
  return join(dirname(place()), "effects");
}

/** eve runs below the home of one session, which is named after it. */
function session(): string {
  return basename(resolve(process.cwd(), "../.."));
}

export function acts(name: string, description: string) {
  return durable({
    description,
    inputSchema: z.object({ mark: z.string(), hold_s: z.number().optional(), until: z.string().optional() }),
    // The id of a call is the same when it runs again: a key for whoever is asked outside.
    async execute(
      { mark, hold_s = 0, until = "" }: { mark: string; hold_s?: number; until?: string },
      { callId }: { callId: string },
    ) {
      const effect = { mark, tool: name, key: callId };
      appendFileSync(join(effects(), `${session()}.jsonl`), `${JSON.stringify(effect)}\n`);
      await sleep(hold_s * 1000);
      while (until && !existsSync(join(effects(), until))) await sleep(10);
      return `${name} ${mark} is done`;
    },
  });
}

export function refuses(description: string) {
  return durable({
    description,
    inputSchema: z.object({ mark: z.string() }),
    async execute({ mark }: { mark: string }) {
      throw new Error(`${mark} cannot be done`);
    },
  });
}

export function runs(description: string) {
  return durable({
    description,
    inputSchema: z.object({ command: z.string() }),
    async execute({ command }: { command: string }) {
      return (await promisify(execFile)("/bin/sh", ["-c", command], { cwd: place() })).stdout;
    },
  });
}

export function writes(description: string) {
  return durable({
    description,
    inputSchema: z.object({ path: z.string(), text: z.string() }),
    async execute({ path, text }: { path: string; text: string }) {
      writeFileSync(join(place(), path), text);
      return "It is written.";
    },
  });
}
