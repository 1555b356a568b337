// Unfolds lists of events as the page does, for the test beside this: JSON in, JSON out.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const { told, Unfolding } = await import(pathToFileURL(process.argv[2]));
const found = JSON.parse(readFileSync(0, "utf8")).map(({ before, events }) => {
  const unfolding = new Unfolding(before ?? {});
  for (const event of events) unfolding.apply(event);
  return told(unfolding);
});
process.stdout.write(JSON.stringify(found));
