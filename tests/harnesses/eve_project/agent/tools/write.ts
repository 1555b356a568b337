import { defineTool } from "eve/tools";
import { writes } from "../lib/shop";

export default defineTool(writes("Write a file."));
